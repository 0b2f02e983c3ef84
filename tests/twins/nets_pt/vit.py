"""A small ViT, as its authors wrote it for PyTorch."""

import torch
from torch import nn

PATCH, CHANNELS, EMBED_DIM, DEPTH, NUM_HEADS, MLP_DIM, NUM_CLASSES, NUM_PATCHES = 4, 3, 36, 2, 3, 84, 9, 15


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, EMBED_DIM, kernel_size=PATCH, stride=PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = EMBED_DIM // NUM_HEADS
        self.scale = self.head_dim**-0.5
        self.query = nn.Linear(EMBED_DIM, EMBED_DIM)
        self.key = nn.Linear(EMBED_DIM, EMBED_DIM)
        self.value = nn.Linear(EMBED_DIM, EMBED_DIM)
        self.proj = nn.Linear(EMBED_DIM, EMBED_DIM)

    def forward(self, x):
        B, N, C = x.shape
        q = self.query(x).reshape(B, N, NUM_HEADS, self.head_dim).permute(0, 2, 1, 3)
        k = self.key(x).reshape(B, N, NUM_HEADS, self.head_dim).permute(0, 2, 1, 3)
        v = self.value(x).reshape(B, N, NUM_HEADS, self.head_dim).permute(0, 2, 1, 3)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(EMBED_DIM, eps=1e-6)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(EMBED_DIM, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(EMBED_DIM, MLP_DIM),
            nn.GELU(),
            nn.Linear(MLP_DIM, EMBED_DIM),
        )

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, EMBED_DIM))
        self.pos_embed = nn.Parameter(torch.zeros(1, NUM_PATCHES + 1, EMBED_DIM))
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(EMBED_DIM, eps=1e-6)
        self.head = nn.Linear(EMBED_DIM, NUM_CLASSES)

    def forward(self, x):
        x = self.patch_embed(x)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls, x), dim=1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x[:, 0])


def build():
    return VisionTransformer()


def loss_of(model, images, labels):
    return nn.CrossEntropyLoss()(model(images), labels)
