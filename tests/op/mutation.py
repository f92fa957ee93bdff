"""Plants errors in copies of kernels, one at a time, mostly in optimized ones, and in a copy of a C file (the program
STALE was built with it): the op tests, and the test of packed weights, must detect each of them. Fails if the text to
replace is not found.

usage: mutation.py OP_TEST SOURCE_DIR POCL_ICD STALE [NAME]"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# Description; op, element type and implementation whose test must detect it; kernel file; the original text, with
# flexible white space; its replacement.
PLANTED = [
    ("a dropped tail", "reduce", "f32", "split", "reduce",
     "for (; r < end; r++) FN(take)(&s, &c, LOAD(T, x, base + r));", ""),
    ("a swapped stride", "gemm", "bf16", "mma", "prelude", "from += at % dims.s4 * strides.s4;",
     "from += at % dims.s4 * strides.s5;"),
    ("a lost correction of signs", "gemm", "i8", "mma", "gemm_mma",
     "to[LINE - 1] = FN(start)(more);", "to[LINE - 1] = 0;"),
    ("an end that is not packed", "gemm", "f32", "vec", "gemm", "vstore8(EIGHT(from, n - 8), 0, to + n - 8);", ""),
    ("a block that begins a row late", "gemm", "f32", "vec", "gemm", "i < row1; i += plan.s3)", "i < row1; i += plan.s3 + 1)"),
    ("rows of another block", "gemm", "f32", "vec", "gemm", "(j == column0 || row1 - row0 > plan.s3)", "j == column0"),
    ("rows of words of another block", "gemm", "bf16", "mma", "gemm_mma", "(j == column0 || row1 - row0 > plan.s3)",
     "(j == column0)"),
    ("a part that begins a row late", "gemm", "f32", "vec_bare", "gemm",
     "const index_t row0 = (index_t)((long)tiles * at / down) * TM;",
     "const index_t row0 = (index_t)((long)tiles * at / down) * TM + (at ? 1 : 0);"),
    ("a panel that is read twice", "gemm", "f32", "vec_panels", "gemm", "panel[s] + i * PANEL",
     "panel[min(s, 2)] + i * PANEL"),
    ("a row's part that is dropped", "gemm", "f32", "vec_panels", "gemm", "k ? total[s][v] + sum[s][v] : sum[s][v]",
     "sum[s][v]"),
    ("strips that are left out", "conv2d", "f32", "winograd", "conv2d_winograd",
     "strip < min(strips, (int)(item % shares + 1) * (int)part.s4);",
     "strip < min(strips, (int)(item % shares * part.s4 + 1));"),
    ("a missing edge", "conv2d", "f32", "winograd", "conv2d_winograd",
     "from.x + TAKEN <= size.x && from.y + TAKEN <= size.y;", "from.x + TAKEN <= size.x;"),
    ("bytes that take the other operand's sign", "conv2d", "u8", "mma_warp", "product_units",
     "CLADE_PASTE(NUMBER_, RIGHT_TYPE)(y)", "CLADE_PASTE(NUMBER_, LEFT_TYPE)(y)"),
    ("bytes of another line", "gemm", "i8", "mma_warpgroup", "product_staged", "(word[i] >> 8 * l & 0xff)",
     "(word[i] >> 8 * (l ^ 1) & 0xff)"),
    ("steps that are transposed to another piece", "gemm", "f8e4m3", "mma_warpgroup_loose", "product_staged",
     "i / 8 / (lines / across) * 4) * EACH", "i / 8 / (lines / across) * 3) * EACH"),
    ("pixels of other steps", "conv2d", "i8", "mma_warpgroup", "product", "/ (RUN * (lines)) * RUN + (e) % RUN",
     "/ (RUN * (lines)) * RUN + 0 * (e)"),
    ("an edge that is not masked", "conv2d", "f32", "winograd_group", "conv2d_winograd_group",
     "place >= 0 && place < size.y", "place >= 0"),
    ("rows of another pass", "conv2d_data", "f32", "winograd_group", "conv2d_winograd_group",
     "FOURS(p, DOWN, e / BN / 2) + p % 4 + e / BN % 2", "FOURS(p, DOWN, e / BN / 2) + e / BN % 2"),
    ("a line of places that is left out", "conv2d", "f32", "fft", "conv2d_fft", "i + 1 < low || i >= high",
     "i < low || i >= high"),
    ("a wrong transposition", "gemm", "f32", "vec", "prelude_memory", "(float8)(y[l + h].s23, y[l + 2 + h].s23,",
     "(float8)(y[l + h].s32, y[l + 2 + h].s23,"),
    ("a pad off by one", "max_pool2d", "f32", "blocked", "pool2d_blocked", "min((delta - 1 - start) / delta, taps)",
     "min((delta - start) / delta, taps)"),
    ("a lost epilogue", "conv2d", "f32", "flat", "conv2d_result",
     "PUT_RESULT(row0 + k, column0 + line * by.x + i * by.y, tile[k * by_row + line * by_line + i * by_place])",
     "STORE(OUT, y, (row0 + k) / 16 * y_s.s4 + (row0 + k) % 16 * y_s.s6 + (column0 + i) * y_s.s7, tile[k * by_row + i]);"),
    ("a last tile that begins where it would be whole", "conv2d", "f32", "flat", "conv2d_flat",
     "(column0 - behind) * 16", "column0 * 16"),
    ("a dropped partial sum", "layer_norm_grad", "f32", "ref", "layer_norm_grad",
     "for (index_t k = 0; k < chunks; k++) {", "for (index_t k = 0; k == 0 || k + 1 < chunks; k++) {"),
    ("a window that keeps what came out", "layer_norm", "f32", "ref", "layer_norm",
     "STORE16(f32, window, i, v); LINE16(", "STORE16(f32, window, i, was); LINE16("),
    ("a row whose sums depend on its place", "layer_norm", "f32", "ref", "layer_norm",
     "for (index_t i = 0; i < count; i += 16) SUM(SOON,", "for (index_t i = count - 16; i >= 0; i -= 16) SUM(SOON,"),
    ("a row that is written by the next one's weights", "layer_norm_grad", "f32", "ref", "layer_norm_grad",
     "scale_was = writes ? weight[row % period", "scale_was = writes ? weight[(row + 1) % period"),
    ("a wrong group", "conv2d", "f32", "direct", "conv2d", "w += group * taps.s2 + row0", "w += row0"),
    ("taps that miss a tile's last place only", "conv2d", "f32", "direct", "conv2d", "high.x + down < 0 ||",
     "low.x + down < 0 ||"),
    ("a line of taps by its first one", "conv2d", "f32", "direct", "conv2d", "high.y + right + wide < 0",
     "high.y + right < 0"),
    ("a tile's columns of another line", "conv2d_data", "f32", "direct", "conv2d",
     "one ? to - line.y * many.y : many.y - 1", "to - line.y * many.y"),
    ("an edge of windows of seven", "conv2d", "f32", "depthwise", "conv2d_depthwise", "X(1, 7, 3)", "X(1, 7, 2)"),
    ("taps by steps of one", "conv2d", "f32", "depthwise", "conv2d_depthwise",
     "SLIDE(FN(slide_##STEP##_##TAPS), STEP,", "SLIDE(FN(slide_##STEP##_##TAPS), 1,"),
    ("places whose last part is not folded", "conv2d_data", "f32", "gemm", "prelude",
     "(size - shift + step - 1) / step, first, many", "(size - shift) / step, first, many"),
    ("a window's last place that is not unfolded", "conv2d_weights", "f32", "gemm", "prelude",
     "(size - shift + step - 1) / step, first, many", "(size - shift) / step, first, many"),
    ("patches of another place", "conv2d_weights", "f32", "gemm", "conv2d_unfold", "from + 4 * i + 16",
     "from + 4 * i + 12"),
    ("images that lie on each other", "conv2d_weights", "f32", "gemm", "conv2d_unfold",
     "y + of / channels * plane", "y"),
    ("a wrong accumulation type", "gemm", "f16", "ref", "gemm",
     "sum += (ACC)LOAD(T, a, k * a_s.s7) * (ACC)LOAD(TB, b, first + k * b_s.s6);",
     "sum = clade_round_f16(sum + LOAD(T, a, k * a_s.s7) * LOAD(TB, b, first + k * b_s.s6));"),
    ("a phase without its first tap", "conv2d_data", "f32", "simt", "product_sources", "(from + tap * delta) / div, step",
     "(from + (tap + step) * delta) / div, step"),
    ("a part that begins where another does", "conv2d_weights", "f32", "simt", "product_sources",
     "first = matrix / dims.s1 * span,", "first = 0,"),
    ("a lane whose sum is lost", "gemm", "f32", "few", "gemm_few", "lane < ITEMS / SEATS", "lane < ITEMS / SEATS - 1"),
    ("bits whose sign is lost", "gemm", "f32", "vec_blocks", "gemm_blocks", "^ (uchar16)(0x88)", "^ (uchar16)(0x80)"),
    ("a panel of one block again and again", "gemm", "f32", "vec_blocks", "gemm_blocks",
     "b += BLOCK, to += 32 * 16", "to += 32 * 16"),
    ("a scale without its sign", "eltwise", "f32", "blocks", "eltwise", "FN(largest)(v) / -8", "FN(largest)(v) / 8"),
    ("a slice that is waited for too late", "gemm", "f16", "mma_warp", "product_staged", "ARRIVED(COMING - 1)",
     "ARRIVED(COMING)"),
    ("a slice that is brought while the one before is read", "gemm", "bf16", "mma_warp", "product_staged",
     "BRING(s + COMING) COMMIT", "BRING(s + COMING + 1) COMMIT"),
    ("a slice that is brought while products of it go on", "gemm", "bf16", "mma_warpgroup", "product_units",
     "#define COMING (STAGES - 2)", "#define COMING (STAGES - 1)"),
    ("groups of lines that are said to lie elsewhere", "gemm", "f16", "mma_warpgroup", "product_units",
     "(ulong)(1024 >> 4) << 32", "(ulong)(512 >> 4) << 32"),
    ("a slice that is brought where another is multiplied", "conv2d", "f16", "mma_warpgroup", "product",
     "STORE_SLICE(right[(s + 1) % 2]", "STORE_SLICE(right[s % 2]"),
    ("halves that change places", "conv2d_data", "bf16", "mma_warp", "product_units", "low | high << bits",
     "high | low << bits"),
    ("a copy of 16 bytes past the end", "gemm", "f16", "mma_warp", "product_staged", "there * (int)sizeof(RAW)", "16"),
    ("positions of the first image in all", "conv2d", "bf16", "mma_warp_last", "product_sources",
     "(INDEX4)(0, p.x * dims.s4 * dims.s5,", "(INDEX4)(0, 0,"),
    ("an image that does not end", "conv2d_weights", "bf16", "mma_warpgroup_last", "product_staged",
     "line = 0, image++;", "line = 0;"),
    ("a window's first tap in its place", "max_pool2d_grad", "f32", "group_last", "pool2d_group_last",
     "row * dims.s2 + column ?", "row * dims.s1 + column ?"),
    ("lines of another lane", "gemm", "f32", "mma_warp_loose", "product_units",
     "(deep ? (line0 + (lane) % 16) * line", "(deep ? (line0 + (lane) / 2) * line"),
    ("a turn that sums its first chunk again", "batch_norm", "f32", "ref", "batch_norm",
     "const index_t first = part * chunk, last", "const index_t first = from * chunk, last"),
    ("a turn's piece that ends with its share", "batch_norm", "f32", "ref", "batch_norm",
     "clade_run_of(i, stop, AHEAD", "clade_run_of(i, end, AHEAD"),
    ("a turn's lost epilogue", "batch_norm", "f32", "ref", "batch_norm",
     "PUT(T, y, at, r);", "PUT(T, y, at, i0);"),
    ("a turn that keeps a share's last chunk alone", "batch_norm_grad", "f32", "ref", "batch_norm_grad",
     "sums[2 * (c * chunks + part) + 1] = clade_lanes(q, 0.0f);",
     "sums[2 * (c * chunks + from) + 1] = clade_lanes(q, 0.0f);"),
    ("a turn's chunk that ends with its share", "batch_norm_grad", "f32", "ref", "batch_norm_grad",
     "clade_run_of(i, last, AHEAD", "clade_run_of(i, end, AHEAD"),
    ("a whole channel's runs without what lies between", "batch_norm", "f32", "group", "batch_norm_group",
     "at += leap + (pixel >= inner ? skip : 0)", "at += leap"),
    ("a whole channel's lost epilogue", "batch_norm", "f32", "group", "batch_norm_group",
     "STORE(T, y, at, r);", "STORE(T, y, at, i0);"),
    ("a whole channel's slope", "batch_norm_grad", "f32", "group", "batch_norm_group",
     "inverse * slanted / n", "slanted / n"),
    ("a strip's last line", "conv2d", "f32", "depthwise_group", "conv2d_depthwise_group",
     "#define REACHED ((STRIP - 1) * STEP + TAPS)", "#define REACHED ((STRIP - 1) * STEP + TAPS - 1)"),
    ("taps that go forwards", "conv2d_data", "f32", "depthwise_group", "conv2d_depthwise_group",
     "back ? TAPS * TAPS - 1 - k : k", "k"),
    ("a first tap of another phase", "conv2d_data", "f32", "depthwise_group", "conv2d_depthwise_group",
     "FIRST_OF(ky, y0, taps.s0, taps.s3, map.s2, map.s3)", ""),
    ("lines below the last one", "conv2d_weights", "f32", "depthwise_group", "conv2d_depthwise_group",
     "first + o < dims.s6 ? LOAD(T, y, from + o * dims.s7) : 0.0f", "LOAD(T, y, from)"),
    ("the last of the largest pixels", "max_pool2d_grad", "f32", "group", "pool2d_group", "winner < 0 || v > top",
     "winner < 0 || v >= top"),
    ("a window that is left out", "avg_pool2d_grad", "f32", "group", "pool2d_group",
     "in_x > wide ? (in_x - wide + map.s4 - 1) / map.s4 : 0;", "in_x > wide ? (in_x - wide) / map.s4 + 1 : 0;"),
    ("pixels beside the image", "avg_pool2d", "f32", "group", "pool2d_group", "sum += in ? v : 0.0f", "sum += v"),
    ("four pixels across a row's end", "broadcast", "f32", "group", "broadcast_group", "column + 4 <= dims.s7",
     "column + 3 <= dims.s7"),
    ("a row that is not looked for", "transpose", "f32", "group", "broadcast_group",
     "from = FN(row)(++row, rank, dims, strides);", "from += dims.s7;"),
    ("a frame's edge", "frame", "f32", "group", "frame_group", "column + 4 <= high.s7", "column + 3 <= high.s7"),
    ("a part's tail", "frame", "f32", "group", "frame_group", "k < begin + left", "k < begin + left - 1"),
    ("a table that follows another", "gather", "f32", "group", "gather_group", "which = 0; table++;", "which = 0;"),
    ("a block's last word", "dropout", "f32", "group", "dropout_group", "item / 16 * 64 + item % 16",
     "item / 16 * 64 + (item + 1) % 16"),
    ("keys of a digit in any order", "scatter_add", "f32", "group", "scatter_add_group", "before += i < me &&",
     "before += i > me &&"),
    ("a run that is added twice", "scatter_add", "f32", "group", "scatter_add_group", "k += RUN;", "k += RUN - 1;"),
    ("what a run's additions lost", "scatter_add", "f32", "group", "scatter_add_group",
     "(sums + (size_t)item * 8 + 4) = lost;", "(sums + (size_t)item * 8 + 4) = s;"),
    ("a row that is added twice", "scatter_add", "f32", "ref", "scatter_add", "ROW(k++)", "ROW(k)"),
    ("a row that gets its neighbor's too", "scatter_add", "f32", "ref", "scatter_add",
     "as_int16(LOAD16(T, dy, b + i)) & -two", "as_int16(LOAD16(T, dy, b + i))"),
    ("a sign that tells who added", "scatter_add", "f32", "ref", "scatter_add", "as_float16(w) + 0.0f", "as_float16(w)"),
]
FINDINGS = r"got \S+, want|central difference|was written outside every value|another execution gave other bits"


def plant(source, folder, file, text, instead):
    with open(os.path.join(source, "cl_kernels", file + ".cl")) as f:
        kernel = f.read()
    pattern = r"[\s\\]*".join(re.escape(word) for word in text.split())
    planted, count = re.subn(pattern, lambda _: instead, kernel)
    if count == 0:
        return f"cl_kernels/{file}.cl has no \"{text}\" to plant an error in: choose another place"
    with open(os.path.join(folder, file + ".cl"), "w") as f:
        f.write(planted)
    return None


def look(op_test, source, environment, mutation):
    what, op, dtype, impl, file, text, instead = mutation
    with tempfile.TemporaryDirectory() as folder:
        problem = plant(source, folder, file, text, instead)
        if problem:
            return f"{what}: {problem}"
        # with a separate PoCL cache, since processes that share one wait for each other
        own = {"CLADE_KERNEL_DIR": folder, "POCL_CACHE_DIR": os.path.join(folder, "pocl")}
        done = subprocess.run([op_test, "--op", op, "--device", "pocl", "--impl", impl, "--dtype", dtype, "--first"],
                              env={**environment, **own}, capture_output=True, text=True)
    found = re.search(FINDINGS, done.stderr)
    if done.returncode != 1 or not found or "clade_compile" in done.stderr:
        return f"{what} in {file}.cl was not found ({done.returncode}):\n{done.stdout}{done.stderr}"
    print(f"{what} in {file}.cl: found\n{done.stderr}", end="")
    return None


def stale(program, environment):
    """Without its version check, the cache of packed weights returns old values."""
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    if done.returncode == 0 or "FAILED" not in done.stderr + done.stdout or "packed_after_training" not in done.stderr:
        return f"a stale packed weight was not found ({done.returncode}):\n{done.stdout}{done.stderr}"
    print("a stale packed weight: found")
    return None


def main():
    op_test, source, icd, program = sys.argv[1:5]
    environment = {**os.environ, "OCL_ICD_VENDORS": icd}
    chosen = [m for m in PLANTED if len(sys.argv) < 6 or sys.argv[5] in m[0]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(look, op_test, source, environment, m) for m in chosen]
        if len(sys.argv) < 6:
            jobs.append(pool.submit(stale, program, environment))
        problems = [p for p in (job.result() for job in jobs) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
