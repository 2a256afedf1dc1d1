#!/bin/sh
# What each training step of the bundled policy brings, and what its size does, on a tenth of the problems and tokens.
# Repeat the command to resume. Takes some hours on 2 cores, in the folder runs/stages:
# sh recipes/tiny/stages.sh
# Step 2 goes on where step 1 ends, and so on. Step 1-more goes on where step 1 ends, too, with the data of step 1 and as
# many tokens as step 2: what step 2 brings beyond it is due to its data. `small` and `large` do all four steps with 1.5
# and 6 million parameters.
set -e
rstar=${RSTAR:-.venv/bin/rstar} out=runs/stages
mkdir -p $out

references() { # NAME OPTIONS…: reference solutions for training
    name=$1 && shift
    [ -f $out/$name.jsonl ] || $rstar problems make --split train --solutions "$@" --out $out/$name.jsonl
}
weak="--family calculate:4 --family inventory:3 --family undo:2 --family two-parts:2 --family two-equations:2
--family compare:2 --family ratio-split --family ages --family percent-change"
references easy --n 3000 --seed 1101 --levels 1-2 --family all --family search:2
references one --n 10000 --seed 1102 --family all --family search:2
references two --n 7000 --seed 1103
references three --n 15000 --seed 1104 --family all --family search
references four --n 25000 --seed 1105 --family all --family search $weak
[ -f $out/numbers.jsonl ] || $rstar problems make --n 590 --seed 9691 --split numbers --out $out/numbers.jsonl
[ -f $out/wordings.jsonl ] || $rstar problems make --n 590 --seed 9693 --split templates --out $out/wordings.jsonl

step() { # NAME RECIPE TOKENS OPTIONS…: train a step, and solve both sets of problems with it
    name=$1 recipe=recipes/tiny/$2.toml tokens=$3 && shift 3
    $rstar train sft $recipe --set tokens=$tokens --set warmup_tokens=30000 "$@" --out $out/$name
    for set in numbers wordings; do
        $rstar solve --problems $out/$set.jsonl --method greedy --policy hf:$out/$name/model --out $out/$name-$set
    done
}
after() { echo "base=$out/$1/model"; }
begin="--data $out/easy.jsonl --data $out/one.jsonl"
step 1 sft 2200000 $begin
step 2 sft-2 1200000 --set "$(after 1)" --data $out/two.jsonl
step 3 sft-3 2400000 --set "$(after 2)" --data $out/three.jsonl
step 4 sft-4 4000000 --set "$(after 3)" --data $out/four.jsonl
step 1-more sft-2 1200000 --set "$(after 1)" --data $out/one.jsonl
step 2-more sft-3 2400000 --set "$(after 2)" --data $out/two.jsonl
step 3-more sft-4 4000000 --set "$(after 3)" --data $out/three.jsonl

sized() { # NAME HIDDEN HEADS INTERMEDIATE LAYERS: all four steps in another size
    step $1-1 sft 2200000 $begin --set shape.hidden_size=$2 --set shape.heads=$3 --set shape.kv_heads=$(($3 / 2)) \
        --set shape.intermediate_size=$4 --set shape.layers=$5
    step $1-2 sft-2 1200000 --set "$(after $1-1)" --data $out/two.jsonl
    step $1-3 sft-3 2400000 --set "$(after $1-2)" --data $out/three.jsonl
    step $1-4 sft-4 4000000 --set "$(after $1-3)" --data $out/four.jsonl
}
sized small 128 4 384 6
sized large 256 8 704 7
