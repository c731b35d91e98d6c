"""trained_same.py HEDDLE FOLDER NETWORK: PyTorch and heddle train the same exported network for some steps on the same
batch; then both give the same probabilities. What one of them trains and the other one does not, such as a part of a
weight, shows in these."""
import csv
import subprocess
import sys
import warnings

import numpy
import torch
from torch import nn

SAMPLES, CLASSES, STEPS, LR, NEAR = 32, 4, 8, 0.2, 2e-5


class Tokens(nn.Module):
    """Attention over patches and a learned token, in front of them or behind."""

    def __init__(self, front, count=1):
        super().__init__()
        self.front, self.count = front, count
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, count, 8))
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        x = torch.cat((token, x) if self.front else (x, token), 1)
        q, k, v = self.qkv(self.norm(x)).chunk(3, 2)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head((x[:, : self.count] if self.front else x[:, -self.count :]).mean(1) + 0.5 * x.mean(1))


def plain(*layers, channels=8):
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *layers, nn.Flatten(), nn.Linear(channels * 64, CLASSES))


NETWORKS = {
    "token": lambda: Tokens(True),
    "token-behind": lambda: Tokens(False),
    "tokens": lambda: Tokens(True, 3),
    "norm-without-bias": lambda: plain(nn.LayerNorm(8, bias=False), nn.GELU()),
    "norm-without-weight": lambda: plain(nn.LayerNorm(8, elementwise_affine=False), nn.GELU()),
    "instance-norm": lambda: plain(nn.InstanceNorm2d(8), nn.GELU()),
}


def train(net, x, y):
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


def main(heddle, folder, name):
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    net = NETWORKS[name]().eval()
    x, y = torch.randn(SAMPLES, 3, 8, 8), torch.randint(CLASSES, (SAMPLES,))
    torch.onnx.export(net, (x[:2],), f"{folder}/net.onnx", input_names=["x"], output_names=["y"], opset_version=17,
                      dynamic_axes={"x": {0: "n"}}, dynamo=False)
    numpy.savez(f"{folder}/data.npz", x_train=x.numpy(), y_train=y.numpy(), x_test=x.numpy(), y_test=y.numpy())
    subprocess.run([heddle, "train", "--model", f"{folder}/net.onnx", "--data", f"{folder}/data.npz", "--normalize",
                    "none", "--optimizer", "sgd", "--momentum", "0", "--lr", str(LR), "--batch", str(SAMPLES),
                    "--max-steps", str(STEPS), "--epochs", str(STEPS), "--out", f"{folder}/trained"],
                   check=True, stdout=subprocess.DEVNULL)
    numpy.save(f"{folder}/x.npy", x.numpy())
    subprocess.run([heddle, "predict", f"{folder}/trained", f"{folder}/x.npy", "--csv", f"{folder}/found.csv"],
                   check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/found.csv") as file:
        found = numpy.array([row[-CLASSES:] for row in list(csv.reader(file))[1:]], float)
    before = net(x).softmax(1).detach().numpy()
    train(net, x, y)
    wanted = net(x).softmax(1).detach().numpy()
    moved, apart = abs(wanted - before).max(), abs(found - wanted).max()
    print(f"after {STEPS} steps probabilities moved by {moved:.2f} and are {apart:.1e} apart")
    return 0 if moved > 0.1 and apart < NEAR else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
