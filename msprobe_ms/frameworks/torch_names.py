"""The names of PyTorch's API that are collected, and whether `torch` is a layer on MindSpore; imports neither."""

import sys


def torch_on_mindspore() -> bool:
    """Return whether the imported `torch` is a layer whose tensors are those of MindSpore.

    Imports nothing and creates no tensor. The class of tensors of such a layer is that of MindSpore or a subclass of
    it; the class of PyTorch never is.
    """
    theirs, ours = (getattr(sys.modules.get(name), "Tensor", None) for name in ("torch", "mindspore"))
    return isinstance(theirs, type) and isinstance(ours, type) and issubclass(theirs, ours)


COLLECTIVES = tuple(
    str.split("""
    all_gather all_gather_coalesced all_gather_into_tensor all_gather_single all_reduce all_reduce_coalesced
    all_to_all all_to_all_single batch_isend_irecv broadcast gather irecv isend recv reduce reduce_scatter
    reduce_scatter_single reduce_scatter_tensor scatter send
    """)
)
"""Functions that exchange tensors between ranks; their calls are recorded separately."""

CALLERS = frozenset(
    str.split("""
    apply_ backward boolean_dispatch compile cond fork handle_torch_function map2_ map_ module_load register_hook
    register_post_accumulate_grad_hook vmap wait while_loop
    """)
)
"""Functions that call functions of the user: the calls inside are recorded, not the caller."""

NO_TENSORS = frozenset(
    str.split("""
    as_subclass assert_int_or_pair broadcast_shapes can_cast classproperty clear_autocast_cache
    compiled_with_cxx11_abi cudnn_is_acceptable data_ptr dense_dim dim dim_order element_size from_blob from_dlpack
    from_file from_numpy frombuffer get_device get_file_path get_num_interop_threads get_num_threads get_rng_state
    import_ir_module import_ir_module_from_buffer init_num_threads initial_seed is_complex is_conj is_contiguous
    is_floating_point is_inference is_neg is_pinned is_same_size is_set_to is_shared is_signed is_storage is_tensor
    item load manual_seed merge_type_from_type_comment ndimension nelement numel numpy parse_ir parse_schema
    parse_type_comment pin_memory prepare_multiprocessing_environment promote_types q_scale q_zero_point qscheme
    record_stream refine_names rename rename_ requires_grad_ result_type retain_grad save seed set_ share_memory_
    size sparse_dim storage storage_offset storage_type stride sym_constrain_range sym_constrain_range_for_size
    sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum thread_safe_generator
    to_dlpack tolist typename unify_type_list untyped_storage use_deterministic_algorithms align_as align_to
    has_names names
    """)
)
"""Functions that describe a tensor, or manage it or the process, without computing."""

ARBITRARY = frozenset(
    str.split("""
    empty empty_like empty_permuted empty_quantized empty_strided new_empty new_empty_strided
    """)
)
"""Functions whose results are uninitialized."""

MANAGING = tuple(
    str.split("""
    are_ autocast_ get_autocast get_default get_deterministic get_float32 has_torch_ is_ profiler_ set_
    """)
)
"""Prefixes of the names of managing functions, in modules."""

LEFT_OUT = CALLERS | NO_TENSORS | ARBITRARY

OPERATORS = tuple(
    f"__{name}__"
    for name in str.split("""
    abs add and div eq floordiv ge getitem gt iadd iand idiv ifloordiv ilshift imatmul imod imul invert ior ipow
    irshift isub itruediv ixor le lshift lt matmul mod mul ne neg or pos pow radd rand rdiv rfloordiv rlshift
    rmatmul rmod rmul ror rpow rrshift rshift rsub rtruediv rxor setitem sub truediv xor
    """)
)
