"""Search problems over numbers, boards, grids, choices and walks.

A solution is a chain of moves. Its first step copies the problem from the question into a few variables and defines one
small move function (the same text in every problem of the family). Each further step makes one move; the last one also
asserts the goal and prints the answer. So the search tree branches at moves, and trying another move costs no more than
writing it.

A move names the state that it leads to, and the function asserts that this state is right and the move legal. An
illegal move, a wrong state and a local dead end all raise an exception, and a program that runs to its end has solved
the problem that its first step copied, so a wrong answer can only come from a wrong copy.
"""
