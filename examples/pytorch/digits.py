"""A perceptron that learns handwritten digits, data-parallel over the ranks of a run:

    troupe train -n 2 --restarts 3 python3 examples/pytorch/digits.py build/data/digits.csv.gz

Nothing but the module beside it knows of Troupe; torchrun runs the script too, without checkpoints.
"""
import gzip
import os
import sys

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import troupe

TRAINED = 1500  # Of the 1,797 digits; the others test.


def load(path):
    with gzip.open(path, "rt") as lines:
        rows = torch.tensor([[float(value) for value in line.split(",")] for line in lines])
    pixels, labels = rows[:, :64] / 16, rows[:, 64].long()
    return TensorDataset(pixels[:TRAINED], labels[:TRAINED]), (pixels[TRAINED:], labels[TRAINED:])


def main(path):
    dist.init_process_group("gloo")  # By RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    torch.manual_seed(1)
    train, (pixels, labels) = load(path)
    model = DistributedDataParallel(Sequential(Linear(64, 64), ReLU(), Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=troupe.config.get("rate", 0.1), momentum=0.9)
    sampler = DistributedSampler(train, seed=1)
    batches = DataLoader(train, batch_size=50, sampler=sampler)
    epoch = 0
    if troupe.restore_dir:
        state = torch.load(os.path.join(troupe.restore_dir, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]

    while epoch < troupe.config.get("epochs", 10):
        sampler.set_epoch(epoch)  # Another order in each, the same after a restart.
        for batch, expected in batches:
            optimizer.zero_grad()
            loss = cross_entropy(model(batch), expected)
            loss.backward()  # Averages the gradients of all ranks.
            optimizer.step()
        epoch += 1
        with torch.no_grad():
            accuracy = (model(pixels).argmax(1) == labels).float().mean().item()
        checkpoint = None
        if troupe.save_due and dist.get_rank() == 0:  # All ranks have the same.
            checkpoint = troupe.checkpoint_dir
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, os.path.join(checkpoint, "state.pt"))
        if troupe.report({"loss": loss.item(), "accuracy": accuracy}, checkpoint):
            break


main(sys.argv[1])
