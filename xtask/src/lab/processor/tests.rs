use super::suits;

/// On a processor with AMX each suite ended with a guest that had died at its start, which said nothing of the server.
#[test]
fn a_processor_with_amx_runs_no_guest() {
    assert!(suits("processor\t: 0\nflags\t\t: fpu sse avx512f amx_none\n"));
    assert!(suits("model name\t: amx_tile\nflags\t\t: fpu\n"));
    assert!(!suits("flags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8\n"));
}
