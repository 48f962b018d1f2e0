# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which names a spec may use: they become identifiers in Python and in C++."""

from __future__ import annotations

import builtins
import keyword
import re

FUNCTIONS = {
    "fact": (1, 1),
    "rank": (1, 1),
    "min": (2, None),
    "max": (2, None),
    "cdiv": (2, 2),
    "ints": (1, None),
    "i32": (1, 1),
    "grad": (1, 1),
    "unflatten": (3, None),
    "flatten": (3, 3),
    "unsqueeze": (2, 2),
    "transpose": (3, 3),
}
"""The functions of the expression language with their least and most arguments."""

LITERALS = {"INT64_MAX": 2**63 - 1, "inf": float("inf")}
"""Names that stand for a value."""

CPP_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq""".split()
)
CPP_TAKEN = frozenset(
    """std ms custom hyper_parallel cpu int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t
    main NULL runner m Output EmptyIfMissing LikeIfPresent kNoTensor kNoInts kAny ShapeVector OperatorRunner
    RefuseHostLaunch FloorDiv FloorMod CeilDiv Factorial Joined Rest AxisOf DtypeOf ExtentOf FirstKnown
    DocumentCount Unflatten Flatten Unsqueeze RankOf""".split()
)
CPP_MACROS = frozenset(
    """errno assert linux unix stdin stdout stderr EOF NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL MAXFLOAT BUFSIZ
    RAND_MAX SIZE_MAX E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF
    EBADFD EBADMSG EBADR EBADRQC EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED
    ECONNRESET EDEADLK EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH
    EIDRM EILSEQ EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED
    ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE EMULTIHOP
    ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV ENOENT
    ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS
    ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOPNOTSUPP EOVERFLOW
    EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE EREMOTEIO
    ERESTART EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME ETIMEDOUT ETOOMANYREFS
    ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL SIGABRT SIGALRM SIGBUS SIGCHLD SIGCONT SIGFPE
    SIGHUP SIGILL SIGINT SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSEGV SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP
    SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2""".split()
)
"""Macros of the C library that the standard headers bring along."""
CPP_LIMIT = re.compile(
    r"(?:U?INT(?:\d+|MAX|PTR)?|U?L?LONG|U?SHRT|[US]?CHAR|PTRDIFF|SSIZE|L?DBL|FLT)_(?:MAX|MIN|WIDTH|DIG)\Z"
)
PYTHON_TAKEN = frozenset(
    """self cls ctx math Any NoReturn Tensor Lengths Integers DType DFunction DistributedOp LayoutRule ContextParallel
    ArgumentChecks get_platform kernel_function bind_arguments check_arguments data_parallel_groups
    context_parallel_ranks int float bool str tuple len staticmethod factorial torch getattr empty_if_absent
    single_or_double NoneType""".split()
)
MOST_CHARACTERS = 96

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
OP_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*\Z")


def fault(name: str) -> str:
    """Why `name` cannot be an argument, dim, output or temporary; empty if it can."""
    if not IDENTIFIER.match(name):
        return "must start with a letter and hold only letters, digits and underscores"
    if len(name) > MOST_CHARACTERS:
        return f"is longer than {MOST_CHARACTERS} characters"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "is a word of Python"
    if name in CPP_KEYWORDS:
        return "is a word of C++"
    if name in CPP_MACROS or CPP_LIMIT.match(name):
        return "is a macro of the C library"
    if name in FUNCTIONS or name in LITERALS:
        return "is a word of the expression language"
    if "__" in name:
        return "holds two underscores in a row, which C++ reserves"
    if name in CPP_TAKEN or name in PYTHON_TAKEN:
        return "is used by the generated code itself"
    if hasattr(builtins, name) and not name.islower():
        return "is a builtin name of Python"
    return ""


def op_fault(name: str) -> str:
    """Why `name` cannot be an operator's name; empty if it can."""
    if not OP_NAME.match(name):
        return "must be lower case words joined by single underscores, starting with a letter"
    if name.startswith("platform_"):
        return "must not start with 'platform_', like the files of the platforms"
    return fault(name)


def camel_case(op: str) -> str:
    """`npu_mhc_post` -> `NpuMhcPost`."""
    return "".join(word[:1].upper() + word[1:] for word in op.split("_"))


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sorting key that takes digits as numbers, as people and import sorters do: `step_2` before `step_10`.

    Numbers that start with a zero come first, digit by digit.
    """
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return [natural_part(part) for part in parts]


def natural_part(part: str) -> tuple[int, int, str]:
    if not part.isdigit():
        return 2, 0, part
    return (0, 0, part) if part.startswith("0") else (1, int(part), part)


def snake_case(kernel: str) -> str:
    """`DenseLightningIndexerGradKLLoss` -> `dense_lightning_indexer_grad_kl_loss`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kernel)
    return spaced.lower()
