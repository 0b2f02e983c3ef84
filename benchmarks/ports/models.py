"""The pairs: a model of a public PyTorch package and its port to MindSpore in another public package.

Sizes are small and weights are random, so nothing is downloaded. `CONFIG` of both sides is the same dictionary.
"""

from dataclasses import dataclass, field

VOCABULARY, BATCH, LENGTH, HIDDEN, HEADS, LAYERS = 97, 2, 8, 32, 4, 2

TEXT = {"input_ids": ("ids", VOCABULARY), "labels": ("ids", VOCABULARY)}
MASKED = {"input_ids": ("ids", VOCABULARY), "attention_mask": ("mask",), "labels": ("ids", VOCABULARY)}
PICTURE = {"pixel_values": ("normal", (BATCH, 3, 16, 16)), "classes": ("class", 10)}


@dataclass(frozen=True)
class Model:
    """A pair. Classes are `module:name`; `inputs` says how each input is drawn, `loss` what is minimised."""

    name: str
    pytorch: str
    mindspore: str
    config: dict
    config_class: str = ""
    inputs: dict = field(default_factory=lambda: TEXT)
    positional: bool = False
    """Whether inputs are given by place."""
    training: bool = True
    """False where a training draws random numbers that no setting turns off."""
    steps: int = 1
    port_config: dict = field(default_factory=dict)
    """Arguments of the port's constructor that replace or join the original's, where names differ."""
    weights: str = "same"
    """How names of parameters correspond: a key of weights.RULES."""


def _huggingface(name, prefix, model, config, inputs=TEXT):
    config = {"attn_implementation": "eager", **config}
    classes = f"transformers:{prefix}{model}", f"mindone.transformers:{prefix}{model}", config
    return Model(name, *classes, f"transformers:{prefix}Config", inputs)


BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "attention_dropout": 0.0,
    "use_cache": False,
}

TRANSFORMERS = (
    _huggingface(
        "gpt2",
        "GPT2",
        "LMHeadModel",
        {
            "vocab_size": VOCABULARY,
            "n_positions": 32,
            "n_embd": HIDDEN,
            "n_layer": LAYERS,
            "n_head": HEADS,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
            "use_cache": False,
        },
    ),
    _huggingface("llama", "Llama", "ForCausalLM", LLAMA),
    _huggingface("qwen2", "Qwen2", "ForCausalLM", LLAMA),
    _huggingface("mistral", "Mistral", "ForCausalLM", {**LLAMA, "sliding_window": 4}),
    _huggingface("gemma", "Gemma", "ForCausalLM", {**LLAMA, "head_dim": 8}),
    _huggingface("bert", "Bert", "ForMaskedLM", BERT, MASKED),
    _huggingface("roberta", "Roberta", "ForMaskedLM", {**BERT, "max_position_embeddings": 34}, MASKED),
    _huggingface("albert", "Albert", "ForMaskedLM", {**BERT, "embedding_size": 16}, MASKED),
    _huggingface(
        "distilbert",
        "DistilBert",
        "ForMaskedLM",
        {
            "vocab_size": VOCABULARY,
            "dim": HIDDEN,
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "hidden_dim": 64,
            "max_position_embeddings": 32,
            "dropout": 0.0,
            "attention_dropout": 0.0,
        },
        MASKED,
    ),
    _huggingface(
        "opt",
        "OPT",
        "ForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "word_embed_proj_dim": HIDDEN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "ffn_dim": 64,
            "max_position_embeddings": 32,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "use_cache": False,
        },
        MASKED,
    ),
    _huggingface(
        "t5",
        "T5",
        "ForConditionalGeneration",
        {
            "vocab_size": VOCABULARY,
            "d_model": HIDDEN,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": LAYERS,
            "num_heads": HEADS,
            "dropout_rate": 0.0,
            "decoder_start_token_id": 0,
            "use_cache": False,
        },
    ),
    _huggingface(
        "vit",
        "ViT",
        "ForImageClassification",
        {
            "hidden_size": HIDDEN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "intermediate_size": 64,
            "image_size": 16,
            "patch_size": 4,
            "num_labels": 10,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        PICTURE,
    ),
    _huggingface(
        "clip_text",
        "CLIPText",
        "Model",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": 64,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "max_position_embeddings": 32,
            "projection_dim": HIDDEN,
            "eos_token_id": 2,
        },
        {"input_ids": ("ids", VOCABULARY), "attention_mask": ("mask",)},
    ),
    Model(
        "whisper_encoder",
        "transformers.models.whisper.modeling_whisper:WhisperEncoder",
        "mindone.transformers.models.whisper.modeling_whisper:WhisperEncoder",
        {
            "attn_implementation": "eager",
            "d_model": HIDDEN,
            "encoder_layers": LAYERS,
            "encoder_attention_heads": HEADS,
            "encoder_ffn_dim": 64,
            "num_mel_bins": 8,
            "max_source_positions": 12,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
        },
        "transformers:WhisperConfig",
        {"input_features": ("normal", (BATCH, 8, 24))},
    ),
)

DIFFUSERS = (
    Model(
        "unet",
        "diffusers:UNet2DModel",
        "mindone.diffusers:UNet2DModel",
        {
            "sample_size": 8,
            "in_channels": 3,
            "out_channels": 3,
            "layers_per_block": 1,
            "block_out_channels": [16, 32],
            "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
            "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
            "norm_num_groups": 8,
            "attention_head_dim": 8,
        },
        inputs={"sample": ("normal", (BATCH, 3, 8, 8)), "timestep": ("values", [7, 41])},
        positional=True,
    ),
    Model(
        "autoencoder_kl",
        "diffusers:AutoencoderKL",
        "mindone.diffusers:AutoencoderKL",
        {
            "in_channels": 3,
            "out_channels": 3,
            "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"],
            "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D"],
            "block_out_channels": [8, 16],
            "layers_per_block": 1,
            "latent_channels": 4,
            "norm_num_groups": 4,
            "sample_size": 8,
        },
        inputs={"sample": ("normal", (BATCH, 3, 8, 8))},
        positional=True,
    ),
    Model(
        "dit",
        "diffusers:DiTTransformer2DModel",
        "mindone.diffusers:DiTTransformer2DModel",
        {
            "num_attention_heads": 4,
            "attention_head_dim": 8,
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": LAYERS,
            "norm_num_groups": 4,
            "sample_size": 8,
            "patch_size": 2,
            "num_embeds_ada_norm": 50,
        },
        training=False,
        inputs={
            "hidden_states": ("normal", (BATCH, 4, 8, 8)),
            "timestep": ("values", [7, 41]),
            "class_labels": ("values", [3, 11]),
        },
        positional=True,
    ),
)


def _timm(name, original, port, config, port_config, size=32, **more):
    """A model of timm and mindcv, by its class: the functions that build one know no small sizes."""
    inputs = {"x": ("normal", (BATCH, 3, size, size)), "classes": ("class", 10)}
    config, port_config = {"num_classes": 10, **config}, {"num_classes": 10, **port_config}
    classes = f"timm.models.{original}", f"mindcv.models.{port}"
    return Model(
        name, *classes, config, inputs=inputs, positional=True, port_config=port_config, weights="in order", **more
    )


TIMM = (
    _timm(
        "resnet",
        "resnet:ResNet",
        "resnet:ResNet",
        {"block": "timm.models.resnet:BasicBlock", "layers": [1, 1, 1, 1]},
        {"block": "mindcv.models.resnet:BasicBlock", "layers": [1, 1, 1, 1]},
        size=64,
        steps=2,
    ),
    _timm(
        "densenet",
        "densenet:DenseNet",
        "densenet:DenseNet",
        {"growth_rate": 8, "block_config": [2, 2]},
        {"growth_rate": 8, "block_config": [2, 2], "num_init_features": 16},
    ),
    _timm(
        "convnext",
        "convnext:ConvNeXt",
        "convnext:ConvNeXt",
        {"depths": [1, 1, 1, 1], "dims": [8, 16, 24, 32]},
        {"depths": [1, 1, 1, 1], "dims": [8, 16, 24, 32], "in_channels": 3},
        size=64,
    ),
    _timm(
        "timm_vit",
        "vision_transformer:VisionTransformer",
        "vit:VisionTransformer",
        {"img_size": 16, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 4},
        {"image_size": 16, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 4},
        size=16,
    ),
    _timm(
        "swin",
        "swin_transformer:SwinTransformer",
        "swintransformer:SwinTransformer",
        {
            "img_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
            "drop_path_rate": 0.0,
        },
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
            "drop_path_rate": 0.0,
        },
    ),
    _timm(
        "mobilenet",
        "mobilenetv3:mobilenetv3_small_100",
        "mobilenetv3:MobileNetV3",
        {},
        {"arch": "small", "alpha": 1.0},
        training=False,
    ),
)

MODELS = {model.name: model for model in (*TRANSFORMERS, *DIFFUSERS, *TIMM)}
