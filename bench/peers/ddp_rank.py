"""One rank of what the tutorials train: SimpleNet with DistributedDataParallel over gloo, a DistributedSampler and a
DataLoader that normalises sample by sample. Rank 0 prints what an epoch took, loading included.
usage: ddp_rank.py FOLDER_OF_MNIST RANK RANKS STORE_FILE"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from peer_work import read_idx

FOLDER, RANK, RANKS, STORE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), os.path.abspath(sys.argv[4])


class Samples(Dataset):
    def __init__(self):
        self.x = read_idx(FOLDER, "train-images-idx3-ubyte").copy()
        self.y = read_idx(FOLDER, "train-labels-idx1-ubyte")

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]).unsqueeze(0).float().div(255).sub(0.1307).div(0.3081), int(self.y[i])


torch.set_num_threads(1)
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
dist.init_process_group("gloo", init_method="file://" + STORE, rank=RANK, world_size=RANKS)
data = Samples()
loader = DataLoader(data, batch_size=64, sampler=DistributedSampler(data, RANKS, RANK))
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
dist.barrier()
begin = time.perf_counter()
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
dist.barrier()
if RANK == 0:
    print(json.dumps({"train_s": time.perf_counter() - begin}))
dist.destroy_process_group()
