"""Compiles the C++ worker of the checks against this interpreter's PyTorch, with NCCL if its header is found. It uses the
compiler alone, for machines without CMake and this project's other libraries.
"""

import concurrent.futures
import os
import pathlib
import shutil
import site
import subprocess
import sysconfig

from local_cluster import ROOT, RTRAIN

from gpu_check.rows import Skip, Wrong

_SOURCES = ("process_group.cpp", "gloo_backend.cpp", "data_parallel.cpp")
_WITHIN_S = 420
# The second file is beside cuda_runtime_api.h, the third in that folder or below it. NVIDIA has a wheel for each.
_NCCL_NEEDS = (("nccl.h",), ("crt/host_config.h",), ("nv/target", "cccl/nv/target"))


def compiled(folder, nccl):
    """Returns the compiled program, which is in `folder`. Raises Skip with what this machine lacks, or Wrong with the
    compiler's output.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise Skip("needs a C++ compiler (g++)")
    torch = torch_folder()
    includes = ["-isystem", torch / "include", "-isystem", torch / "include/torch/csrc/api/include"]
    own_sources = ROOT / "runtime" / "torch"
    # Compiles one unit, since LibTorch's headers take most of the time and every unit reads them.
    within = [part for name in _SOURCES for part in ("-include", own_sources / name)]
    units = {ROOT / "tests" / "gpu" / "jobs" / "ddp_worker.cpp": [f"-I{own_sources / 'gloo_names'}", *within]}
    if nccl:
        units[own_sources / "nccl_backend.cpp"] = ["-DUSE_C10D_NCCL", *nccl_includes(folder)]
    folder.mkdir(parents=True)
    common = [*cached(compiler), "-std=c++20", "-O1", "-fPIC", "-w", f"-I{ROOT}", f"-D_GLIBCXX_USE_CXX11_ABI={abi()}", *includes]
    common += ["-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO", "-DUSE_RPC", "-DUSE_TENSORPIPE"]
    common += ["-DRTRAIN_WITH_NCCL"] if nccl else []
    commands = []
    for source, own in units.items():
        commands.append([*common, *own, "-c", source, "-o", folder / f"{source.stem}.o"])
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as threads:
        list(threads.map(run, commands))
    return link(compiler, torch, [command[-1] for command in commands], folder / "ddp_worker", nccl)


def link(compiler, torch, objects, program, nccl):
    names = ["torch", "torch_cpu", "c10", *(("torch_cuda", "c10_cuda") if nccl else ())]
    libraries = [torch / "lib" / f"lib{name}.so" for name in names]
    worker = pathlib.Path(RTRAIN).resolve().parent
    # LibTorch finds its own libraries.
    search = [f"-Wl,-rpath,{torch / 'lib'}", f"-Wl,-rpath,{worker}", "-Wl,--allow-shlib-undefined"]
    run(
        [compiler, *objects, "-Wl,--no-as-needed", *libraries, worker / "librtrain_worker.so", *search, "-pthread", "-o", program]
    )
    return program


def cached(compiler):
    return ["ccache", compiler] if shutil.which("ccache") else [compiler]


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line] or done.stderr.splitlines()
        raise Wrong(f"{pathlib.Path(command[-1]).name} does not compile: {(lines or ['no reason given'])[0]}")


def torch_folder():
    import torch

    folder = pathlib.Path(torch.__file__).parent
    if not (folder / "include" / "torch" / "csrc" / "api" / "include" / "torch" / "torch.h").exists():
        raise Skip(f"needs LibTorch's headers, which {folder} does not have")
    return folder


def abi():
    import torch

    return int(torch._C._GLIBCXX_USE_CXX11_ABI)


def wheels():
    """Returns the `include` folders of NVIDIA's wheels beside this PyTorch."""
    places = [sysconfig.get_path("purelib"), *site.getsitepackages(), str(torch_folder().parent)]
    return [folder for place in dict.fromkeys(places) for folder in sorted(pathlib.Path(place, "nvidia").glob("*/include"))]


def nccl_includes(folder):
    """Returns the folders of nccl.h and CUDA's runtime headers, with a folder of links for headers that no wheel has. Raises
    Skip if there are none.
    """
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    toolkits = [pathlib.Path(nvcc).resolve().parent.parent / "include", pathlib.Path("/usr/include")]
    named = [pathlib.Path(os.environ["NCCL_ROOT"], "include")] if os.environ.get("NCCL_ROOT") else []
    places = [*named, *wheels(), *toolkits]
    directories = []
    for headers in _NCCL_NEEDS:
        place = next((place for place in places if any((place / header).exists() for header in headers)), None)
        if place is None:
            raise Skip(f"needs {headers[0]}: from NVIDIA's wheels, a CUDA toolkit, or NCCL_ROOT")
        directories += [place, place / "cccl"]  # nvcc searches the latter by default, a C++ compiler does not
    names = folder.with_name(f"{folder.name}-names")
    names.mkdir(parents=True)
    (names / "cusolver_common.h").write_text("#include <cusolverDn.h>\n")
    system = [
        argument
        for place in dict.fromkeys(directories)
        if place != pathlib.Path("/usr/include")
        for argument in ("-isystem", place)
    ]
    return [*system, "-idirafter", ROOT / "runtime" / "torch" / "cuda_names", "-idirafter", names]
