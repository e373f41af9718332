"""control.py - a training program for control.sh: it holds some memory, frees most, and goes on in small steps.

Reads one command a line and answers each with one line: `grow GIB` allocates so much in pieces of many sizes and frees
it again, `try GIB` allocates so much in one piece and says what came of it, `step` trains one step, `live` tells the
bytes PyTorch has allocated.
"""
import sys

import torch

GIB = 1 << 30


def grow(gib):
    pieces = []
    left = int(gib * GIB)
    generator = torch.Generator().manual_seed(1)
    while left > 0:
        size = min(left, int(torch.randint(1 << 20, 1 << 28, (1,), generator=generator)))
        pieces.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        left -= size
    torch.cuda.synchronize()
    count = len(pieces)
    del pieces
    torch.cuda.synchronize()
    return f"{count} pieces"


def attempt(gib):
    try:
        piece = torch.zeros(int(gib * GIB), dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        del piece
        return "served"
    except torch.cuda.OutOfMemoryError:
        return "out of memory"


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(256, 2048, device="cuda")

    def step():
        loss = model(data).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return f"loss {loss.item():.6f}"

    actions = {"grow": grow, "try": attempt}
    print(step(), flush=True)
    for line in sys.stdin:
        name, *arguments = line.split()
        if name in actions:
            answer = actions[name](float(arguments[0]))
        else:
            answer = step() if name == "step" else str(torch.cuda.memory_allocated())
        print(answer, flush=True)


main()
