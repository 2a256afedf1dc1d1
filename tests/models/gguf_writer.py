"""Converts a model folder to GGUF, the format of llama.cpp: ``python gguf_writer.py FOLDER FILE``.

It runs in the environment of llama.cpp's server, which has the package ``gguf``; so it imports nothing from here.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter, TokenType

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names of a layer's tensors, and those that llama.cpp gives them."""


def read_tensors(file: Path) -> dict[str, np.ndarray]:
    """Tensors of a safetensors file, in float32. NumPy has no bfloat16, which is the upper half of a float32."""
    raw = file.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            if entry["dtype"] == "BF16":
                values = (np.frombuffer(raw[begin:end], np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                values = np.frombuffer(raw[begin:end], np.float32).copy()
            tensors[name] = values.reshape(entry["shape"])
    return tensors


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key projection in llama.cpp's order: the two halves of a head's rotation alternate."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_tokens(writer: GGUFWriter, folder: Path, size: int, end: int) -> None:
    """Write the vocabulary. Only the end of text is a control token; the markers of the steps stay in the text."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    texts = [f"<unused{token}>" for token in range(size)]
    kinds = [int(TokenType.UNUSED)] * size
    for text, token in tokenizer["model"]["vocab"].items():
        texts[token], kinds[token] = text, int(TokenType.NORMAL)
    for added in tokenizer["added_tokens"]:
        texts[added["id"]], kinds[added["id"]] = added["content"], int(TokenType.USER_DEFINED)
    kinds[end] = int(TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("refact")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text(encoding="utf-8"))


def write(folder: Path, out: Path) -> None:
    """Write the Llama model in `folder` to the file `out`."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = GGUFWriter(str(out), "llama")
    writer.add_name("tiny")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(0)  # float32
    write_tokens(writer, folder, config["vocab_size"], config["eos_token_id"])
    tensors = read_tensors(folder / "model.safetensors")
    writer.add_tensor("token_embd.weight", tensors["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", tensors["model.norm.weight"])
    for layer in range(config["num_hidden_layers"]):
        for name, theirs in LAYER.items():
            weight = tensors[f"model.layers.{layer}.{name}.weight"]
            if theirs in ("attn_q", "attn_k"):
                weight = interleaved(weight, heads if theirs == "attn_q" else kv_heads)
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
