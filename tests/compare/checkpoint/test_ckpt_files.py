"""Files that MindSpore really wrote, read without it: every parameter comes back with its bits."""

import mindspore as ms
import mindspore.train.serialization as serialization
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn

from msprobe.base.errors import DumpError
from msprobe.compare.checkpoint.ckpt import read_ckpt
from msprobe.compare.checkpoint.formats import read_safetensors

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(3)
DTYPES = [
    *(ms.float16, ms.float32, ms.float64, ms.bfloat16, ms.bool_),
    *(ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8, ms.uint16, ms.uint32, ms.uint64),
]


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(40, 30)
        self.scalar = Parameter(Tensor(3.5, ms.float32), name="scalar")
        for dtype in DTYPES:
            name = f"of_{dtype}"
            values = Tensor(RNG.integers(0, 2, (3, 5)) if dtype == ms.bool_ else RNG.normal(20, 3, (3, 5)))
            setattr(self, name, Parameter(values.astype(dtype), name=name, requires_grad=False))


@pytest.fixture(scope="module")
def net():
    return Net()


def same(found, net):
    for parameter in net.get_parameters():
        is_wide = parameter.dtype == ms.bfloat16
        want = (parameter.astype(ms.float32) if is_wide else parameter).asnumpy()
        one = found.parameters[parameter.name]
        array = one.load()
        assert one.shape == array.shape == want.shape, parameter.name
        assert array.dtype == want.dtype, parameter.name
        assert array.tobytes() == want.tobytes(), parameter.name
        assert one.dtype.lower() == str(parameter.dtype).lower()


def test_every_dtype_comes_back_bit_by_bit(net, tmp_path):
    ms.save_checkpoint(net, str(tmp_path / "a.ckpt"), append_dict={"epoch": 3, "rate": 0.5, "note": "a text"})
    found = read_ckpt(tmp_path / "a.ckpt")
    same(found, net)
    assert found.framework == "mindspore"
    assert found.parameters["epoch"].load() == 3
    assert found.parameters["rate"].load() == 0.5
    assert "note" not in found.parameters


def test_a_checksum_at_the_end_is_no_parameter(net, tmp_path):
    ms.save_checkpoint(net, str(tmp_path / "a.ckpt"), crc_check=True)
    same(read_ckpt(tmp_path / "a.ckpt"), net)


def test_a_parameter_that_was_cut_is_put_together(net, tmp_path, monkeypatch):
    monkeypatch.setattr(serialization, "SLICE_SIZE", 1)  # KiB; 512 MiB otherwise
    ms.save_checkpoint(net, str(tmp_path / "a.ckpt"))
    assert (tmp_path / "a.ckpt").read_bytes().count(b"fc.weight") == 5, "4800 bytes in pieces of 1024"
    same(read_ckpt(tmp_path / "a.ckpt"), net)


def test_an_encrypted_file_is_refused_with_what_to_do(net, tmp_path):
    for mode in ("AES-GCM", "AES-CBC", "SM4-CBC"):
        ms.save_checkpoint(net, str(tmp_path / "a.ckpt"), enc_key=b"0123456789ABCDEF", enc_mode=mode)
        with pytest.raises(DumpError, match="is encrypted; load it with dec_key and save it without enc_key"):
            read_ckpt(tmp_path / "a.ckpt")


def test_safetensors_of_mindspore_come_back_bit_by_bit(net, tmp_path):
    ms.save_checkpoint(net, str(tmp_path / "a.safetensors"), format="safetensors")
    found = read_safetensors(tmp_path / "a.safetensors")
    same(found, net)
    assert found.framework == "mindspore"


def test_one_net_in_both_formats_is_one_net(net, tmp_path, compare):
    ms.save_checkpoint(net, str(tmp_path / "a.ckpt"))
    ms.save_checkpoint(net, str(tmp_path / "a.safetensors"), format="safetensors")
    code, entries, output = compare(tmp_path / "a.ckpt", tmp_path / "a.safetensors")
    assert code == 0, output
    assert f"{len(entries)} pass, 0 warning" in output
    assert entries["of_BFloat16"]["dtype"] == "bfloat16"


def test_of_a_training_the_last_checkpoint_of_each_rank_is_compared(tmp_path, compare):
    for run, shift in (("a", 0.0), ("b", 0.5)):
        for rank in range(2):
            (tmp_path / run / f"rank_{rank}").mkdir(parents=True)
            for step in (2, 10):
                held = [{"name": "w", "data": Tensor(np.ones(3, np.float32) * step + (shift if rank else 0.0))}]
                ms.save_checkpoint(held, str(tmp_path / run / f"rank_{rank}" / f"net-1_{step}.ckpt"))
    code, entries, output = compare(tmp_path / "a", tmp_path / "b")
    assert code == 1, output
    assert {name: entry["verdict"] for name, entry in entries.items()} == {"rank_0/w": "pass", "rank_1/w": "error"}
    assert entries["rank_1/w"]["l2"] == pytest.approx(np.sqrt(3) / 2)
    code, _, output = compare(tmp_path / "a", tmp_path / "b" / "rank_0")
    assert code == 2
    assert "merge each with its strategy files" in output
