"""`workbench capture`, `captures` and `rm-capture`."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from models.attention import CapturedString, open_capture
from models.errors import UsageError
from workbench.capture_files import (
    CaptureEntry,
    CaptureStatus,
    find_capture,
    list_captures,
    load_capture,
    new_capture_path,
    remove_capture,
    strings_text,
)
from workbench.cli.evaluation import parse_lengths
from workbench.cli.options import DeviceOption, JsonOption, RunArgument, StoreOption
from workbench.cli.output import Output, age_text, lengths_text
from workbench.files import bytes_text, require_new_name
from workbench.runs import Run, Store, split_step

INTERRUPTED = 130
GIVEN = "given"  # what stands in place of a distribution where a string was given
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"k": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_FIRST_TOKENS = 24
_DIGITS = 10  # tokens of the largest alphabet whose strings are written without anything between


def capture(
    run: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="A run's id, the beginning of it, or `latest`, with @STEP for the weights of a step; or a hand-built "
            "model, built:NAME.",
        ),
    ],
    strings: Annotated[int, typer.Option(help="How many strings.", min=1)] = 8,
    length: Annotated[
        str | None, typer.Option(help="Of the strings: 60, or 40-80.  [default: the longest of training]")
    ] = None,
    distribution: Annotated[str | None, typer.Option(help="Of the strings.  [default: as in the recipe]")] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Exactly this string, 0110 or 12.7.3, in place of drawn ones.", metavar="TOKENS"),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only strings that the model copies wrongly.")] = False,
    tries: Annotated[int, typer.Option(help="With --failed: try at most so many strings.", min=1)] = 1000,
    names: Annotated[
        str | None,
        typer.Option(help="Also store these activations: resid_post, or full hook names of single layers."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Refuse what takes more than this on disk or in memory: 4GB.  [default: the free disk space, half "
            "the free memory]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the strings.", min=0)] = 0,
    checkpoint: Annotated[
        int | None, typer.Option(metavar="STEP", help="Weights of this step, in place of the newest.", min=0)
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of the capture.  [default: made of what it holds]")
    ] = None,
    overview: Annotated[
        bool,
        typer.Option("--overview/--no-overview", help="Prepare the maps of strings over 2,048 tokens for viewing."),
    ] = True,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Store what is needed to look at the exact attention of some strings. Ctrl-C leaves nothing behind.

    A hand-built model becomes a run of the store with its first capture, so that the dashboard shows it like any other.
    """
    output = Output(json)
    lengths = None if length is None else _one_length(length)
    limit = None if budget is None else parse_size(budget)
    folder = Store(store)
    if text is not None:
        _refuse_beside_text({"--length": length, "--distribution": distribution, "--failed": failed or None})
    built = run.startswith("built:")
    run, step = split_step(run)
    if step is not None and checkpoint is not None:
        raise UsageError(f"{run}@{step} says its step already; leave out @{step} or --checkpoint {checkpoint}")
    checkpoint = checkpoint if step is None else step
    if name is not None and built:
        require_new_name(name, "capture")
    elif name is not None:
        new_capture_path(folder.open(run), name)
    from models.capture import hooks_named
    from models.capture_cost import CaptureSize
    from models.distributions import DISTRIBUTIONS
    from models.tasks import CopyTask
    from workbench.built import find_built, keep_built
    from workbench.captures import Request, build_overviews, choose_strings, long_heads, require_room, write_capture
    from workbench.limits import require_positions
    from workbench.progress import Bar
    from workbench.subjects import load_run, load_subject

    opened = find_built(folder, run) if built else folder.open(run)
    if name is not None and opened is not None:
        new_capture_path(opened, name)
    subject = load_subject(folder, run, device, checkpoint) if opened is None else load_run(opened, device, checkpoint)
    settings = subject.recipe.task
    given = None if text is None else read_string(text, settings.alphabet)
    if given is None:
        request = Request(
            distribution=distribution or settings.distribution,
            lengths=lengths or (settings.lengths[1], settings.lengths[1]),
            strings=strings,
            failed=failed,
            tries=tries,
            seed=seed,
        )
        DISTRIBUTIONS[request.distribution]
    else:
        request = Request(distribution=GIVEN, lengths=(len(given), len(given)), strings=1, seed=seed)
    require_positions(subject.model, request.lengths[1], "--length")
    wanted = [] if names is None else _names(names)
    if subject.model.cfg.attn_only:
        _refuse_mlp(subject.name, wanted)
    extra = hooks_named(subject.model, wanted)
    if subject.remark:
        output.remark(subject.remark)
    size = CaptureSize(request.strings, request.lengths[1], extra, overview)
    cost = require_room(subject.model, _there(folder.root if opened is None else opened.path), size, limit)
    output.remark(f"at most {bytes_text(cost.disk)} on disk and {bytes_text(cost.memory)} of memory")

    task = CopyTask(settings)
    try:
        if given is not None:
            batch, tried = task.encode([given]), 1
        elif failed:
            with Bar(output.progress, "looking for failures", tries) as bar:
                batch, tried = choose_strings(subject.model, task, request, bar.advance)
            output.remark(f"{len(batch)} strings that are copied wrongly found among the {tried} tried")
        else:
            batch, tried = choose_strings(subject.model, task, request)
        if opened is None:
            opened = keep_built(folder, run)
            output.remark(f"{run} is now run {opened.id} of {folder.root}")
        with Bar(output.progress, f"capturing {subject.name}", len(batch)) as bar:
            path = write_capture(
                opened,
                subject.model,
                batch,
                request,
                step=subject.step,
                tried=tried,
                name=name,
                extra=extra,
                progress=bar.advance,
            )
    except KeyboardInterrupt:
        output.remark("interrupted: nothing was captured")
        raise
    maps = long_heads(open_capture(path)) if overview else []
    interrupted = False
    if maps:
        try:
            with Bar(output.progress, "overviews of long maps", len(maps)) as bar:
                build_overviews(open_capture(path), bar.update)
        except KeyboardInterrupt:
            interrupted = True
    made = find_capture(opened, path.name)
    wrong = f"{made.failed} of them copied wrongly" if made.failed else "all copied exactly"
    output.line(
        f"captured {made.id}: {strings_text(made.strings, made.longest, made.shortest)}, {wrong}, "
        f"{bytes_text(made.size)}; see: workbench captures {shlex.quote(opened.id)} {made.id}{folder.option}"
    )
    output.json(_summary(made) | {"run": opened.id, "tried": tried, "interrupted": interrupted})
    if interrupted:
        output.remark("interrupted: the capture is complete, the overviews that are missing are made when looked at")
        raise typer.Exit(INTERRUPTED)


def _there(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


def captures(
    run: RunArgument,
    capture: Annotated[
        str | None,
        typer.Argument(metavar="[CAPTURE]", help="Its id, the beginning of it, or `latest`: look at this one."),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """List the captures of a run, newest first, or show one."""
    output = Output(json)
    folder = Store(store)
    found = folder.open(run)
    if capture is not None:
        _show(output, found, capture)
        return
    entries = list_captures(found)
    if entries:
        output.table(
            f"Captures of {found.id}",
            ["capture", "status", ">strings", ">failed", ">length", "distribution", ">step", ">size", ">age", "remark"],
            [
                [
                    entry.id,
                    entry.status.value,
                    *(
                        [
                            entry.strings,
                            entry.failed,
                            lengths_text(entry.shortest, entry.longest),
                            entry.distribution,
                            entry.step,
                        ]
                        if entry.status is CaptureStatus.COMPLETE
                        else ["-"] * 5
                    ),
                    bytes_text(entry.size),
                    age_text(entry.created),
                    entry.message or "",
                ]
                for entry in entries
            ],
        )
    else:
        make = f"workbench capture {shlex.quote(found.id)}{folder.option}"
        output.line(f"Run {found.id} has no capture yet; make one with: {make}")
    output.json({"run": found.id, "captures": [_summary(entry) for entry in entries]})


def rm_capture(
    run: RunArgument,
    captures: Annotated[list[str], typer.Argument(metavar="CAPTURE...", help="Ids, beginnings of ids, or `latest`.")],
    store: StoreOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove captures of a run, after asking."""
    output = Output()
    found = Store(store).open(run)
    chosen = {entry.id: entry for entry in (find_capture(found, name) for name in captures)}
    foreign = [entry for entry in chosen.values() if entry.status is CaptureStatus.FOREIGN]
    if foreign:
        raise UsageError(f"{foreign[0].id!r} is not a capture, so it is left alone: {foreign[0].message}")
    if not yes:
        names = ", ".join(f"{entry.id} ({bytes_text(entry.size)})" for entry in chosen.values())
        typer.confirm(f"Remove {names} from run {found.id}?", abort=True, err=True)
    for entry in chosen.values():
        remove_capture(found, entry)
        output.line(f"removed {entry.id}")


def parse_size(text: str) -> int:
    """Return the bytes of "4GB", "500 MB", "2GiB" or "1000000"; UsageError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)[bB]?\s*", text, re.ASCII)
    unit = match[2].replace("K", "k") if match else ""
    if match is None or (match[3] and not unit) or float(match[1]) <= 0:
        raise UsageError(f"--budget: {text!r} is no size; give a number with a unit, as in 500MB, 4GB or 2GiB")
    return int(float(match[1]) * (_BINARY if match[3] else _UNITS)[unit])


def read_string(text: str, alphabet: int) -> list[int]:
    """Return the ids of a string: digits, 0110, or numbers with dots, spaces or commas between, 12.7.3.

    Raises:
        UsageError: it is none, or holds a token that is not in the alphabet.
    """
    if not re.fullmatch(r"[0-9]+([ .,]+[0-9]+)*", text.strip(), re.ASCII):
        raise UsageError(f"--text: {text[:40]!r} is no string; give tokens as digits, 0110, or as numbers, 12.7.3")
    parts = re.split(r"[ .,]+", text.strip())
    parts = list(parts[0]) if len(parts) == 1 and alphabet <= _DIGITS else parts
    beyond = next((part for part in parts if len(part) > len(str(alphabet)) or int(part) >= alphabet), None)
    if beyond is not None:
        raise UsageError(f"--text: token {beyond[:40]} is not in the alphabet; give tokens from 0 to {alphabet - 1}")
    return [int(part) for part in parts]


def _refuse_beside_text(options: dict[str, Any]) -> None:
    """Raise UsageError where an option is given that chooses other strings than the one of --text."""
    beside = [name for name, value in options.items() if value is not None]
    if beside:
        raise UsageError(f"--text is one string, and {beside[0]} chooses others; give one of the two")


def _one_length(text: str) -> tuple[int, int]:
    """Return the length interval of "60" or "40-80"."""
    intervals = parse_lengths(text, "--length")
    if len(intervals) > 1:
        raise UsageError(f"--length: {text!r} are several; give one length, or one range as in 40-80")
    return intervals[0]


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise UsageError("--names: no activation was given; give some, as in resid_post")
    return names


def _refuse_mlp(name: str, wanted: list[str]) -> None:
    """Raise UsageError where an activation of an MLP is wanted; the subject called `name` has none."""
    mlp = next((hook for hook in wanted if "mlp" in hook or hook in ("pre", "post")), None)
    if mlp is not None:
        raise UsageError(f"--names: {name} is attention-only, it has no MLP and so no {mlp}; as in resid_post")


def _show(output: Output, run: Run, name: str) -> None:
    """Print one capture: what it is, its strings, and what their files hold."""
    capture, entry = load_capture(run, name), find_capture(run, name)
    about = capture.about
    output.line(
        f"{entry.id} of {run.id} at step {entry.step}: {strings_text(entry.strings, entry.longest, entry.shortest)}, "
        f"{entry.distribution}, {entry.failed} copied wrongly; seed {about.get('seed')}, {about.get('tried')} tried"
    )
    output.line(f"{bytes_text(entry.size)} ({bytes_text(entry.overviews)} of them overviews), {entry.path}")
    described = [_string_summary(capture.string(i), i) for i in range(len(capture))]
    output.table(
        "Strings",
        [">string", ">length", ">tokens", "copied", ">first error", ">size", "string begins"],
        [
            [
                string["string"],
                string["length"],
                string["tokens"],
                "exactly" if string["exact"] else "wrongly",
                "-" if string["first_error"] is None else string["first_error"],
                bytes_text(string["size"]),
                string["begins"],
            ]
            for string in described
        ],
    )
    tensors = capture.string(0).tensors
    output.table(
        "Tensors of string 0",
        ["name", "shape", "type"],
        [[tensor, " x ".join(map(str, shape)), dtype] for tensor, (shape, dtype) in tensors.items()],
    )
    output.json(
        _summary(entry)
        | {
            "run": run.id,
            "seed": about.get("seed"),
            "tried": about.get("tried"),
            "schemes": [rule.scheme for rule in capture.rules],
            "heads": list(capture.heads),
            "extra": list(capture.string(0).extra_names),
            "contents": described,
            "tensors": {tensor: {"shape": list(shape), "dtype": dtype} for tensor, (shape, dtype) in tensors.items()},
        }
    )


def _string_summary(string: CapturedString, index: int) -> dict[str, Any]:
    """What scripts are told of a string; WorkbenchError where it is damaged."""
    names = string.token_names
    start = next((int(at) for at in string.source_position if at >= 0), 0)
    shown = min(string.length, _FIRST_TOKENS)
    return {
        "string": index,
        "length": string.length,
        "exact": string.exact,
        "first_error": string.first_error,
        "tokens": len(names),
        "size": string.path.stat().st_size,
        "begins": " ".join(names[start : start + shown]) + (" ..." if string.length > shown else ""),
    }


def _summary(entry: CaptureEntry) -> dict[str, Any]:
    """What scripts are told of every capture."""
    complete = entry.status is CaptureStatus.COMPLETE
    facts = {
        "strings": entry.strings,
        "failed": entry.failed,
        "shortest": entry.shortest,
        "length": entry.longest,
        "distribution": entry.distribution,
        "step": entry.step,
    }
    return {
        "id": entry.id,
        "status": entry.status.value,
        **(facts if complete else dict.fromkeys(facts)),
        "size": entry.size,
        "overviews": entry.overviews,
        "created": entry.created.isoformat() if entry.created else None,
        "message": entry.message,
    }
