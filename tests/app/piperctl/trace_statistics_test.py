#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: trace_statistics_test.py PIPERCTL TRACE...

Sums over traces as others may have written them: each TRACE (Chrome JSON, .gz) in many forms, imported by
piperctl, against sums made here from the same text by the definitions of docs/formats.md alone.
"""
import copy
import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
import unittest
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

PIPERCTL = sys.argv.pop(1)
TRACES = [Path(name) for name in sys.argv[1:]]
del sys.argv[1:]

KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset",
         "memset": "memset"}
COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|deep_ep|nvshmem|oneccl|one_?shot_?all_?reduce|two_?shot_?all_?reduce|"
    r"cross_device_reduce|(^|[^a-z])ep::(inter|intra)node", re.IGNORECASE)
COMMUNICATION_NAMES = [
    "ncclDevKernel_AllReduce", "NCCLx", "rcclGeneric", "void msccl::x", "deep_ep::dispatch", "oneCCL_k",
    "OneShotAllReduce", "two_shot_all_reduce", "vllm::cross_device_reduce_2stage", "void ep::internode::x",
    "dpsk::ep::intranode::x", "step::internode::x", "flash combine dispatch", "x" * 5000 + "nvshmem",
    "y" * 4094 + "nccl" + "z" * 3000, "a" * 4096 + "ep::internode", "a" * 4096 + " ep::internode", "", "\u00fcnccl"]


def nanoseconds(text):
    return int((Decimal(str(text)) * 1000).to_integral_value(ROUND_HALF_UP))


def merged(intervals):
    out = []
    for begin, end in sorted(intervals):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def length(intervals):
    return sum(end - begin for begin, end in intervals)


def intersection(a, b):
    i = j = total = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def expected(events):
    """What `piperctl stats` must say of the elements of an array of trace events."""
    work = []
    for e in events:
        kind = KINDS.get(str(e.get("cat", "")).lower())
        if e.get("ph") != "X" or not kind:
            continue
        args = e.get("args") or {}
        begin = nanoseconds(e["ts"])
        work.append((kind, str(args.get("device", e.get("pid"))), str(args.get("stream", e.get("tid"))), begin,
                     begin + nanoseconds(e.get("dur", 0)), str(e.get("name", ""))))
    kernels = [w for w in work if w[0] == "kernel"]
    devices = sorted({w[1] for w in work})

    def union(items, device):
        return merged((w[3], w[4]) for w in items if w[1] == device)

    out = {"events_total": len(events), "devices": len(devices), "streams": len({w[1:3] for w in work}),
           "kernels": len(kernels), "distinct_kernel_names": len({k[5] for k in kernels}),
           "memcpy": sum(w[0] == "memcpy" for w in work), "memset": sum(w[0] == "memset" for w in work),
           "kernel_sum_ns": sum(k[4] - k[3] for k in kernels),
           "kernel_union_ns": sum(length(union(kernels, d)) for d in devices),
           "gpu_span_ns": max(w[4] for w in work) - min(w[3] for w in work) if work else 0}
    if work:
        out["busy_union_ns"] = sum(length(union(work, d)) for d in devices)
        out["idle_in_span_ns"] = sum(max(w[4] for w in work if w[1] == d) - min(w[3] for w in work if w[1] == d)
                                     for d in devices) - out["busy_union_ns"]
    for key, is_one in (("nccl", lambda name: name.lower().startswith("nccl")),
                        ("comm_ext", lambda name: bool(COMMUNICATION.search(name)))):
        own, others = [k for k in kernels if is_one(k[5])], [k for k in kernels if not is_one(k[5])]
        total = sum(length(union(own, d)) for d in devices)
        covered = sum(intersection(union(own, d), union(others, d)) for d in devices)
        out[f"{key}_kernels"], out[f"{key}_sum_ns"] = len(own), sum(k[4] - k[3] for k in own)
        out[f"{key}_union_ns"] = total
        out[f"overlap_{key}_pct"] = 100 * covered / total if total else None
    latest, out["same_stream_overlaps"] = {}, 0
    for k in sorted(kernels, key=lambda k: k[3:5]):
        out["same_stream_overlaps"] += k[1:3] in latest and k[3] < latest[k[1:3]]
        latest[k[1:3]] = max(latest.get(k[1:3], k[4]), k[4])
    return out


def text_of(document, ascii_only=True):
    """JSON with decimals as they are."""
    decimals = []

    def marked(value):
        if isinstance(value, Decimal):
            decimals.append(format(value, "f"))
            return f"\x01{len(decimals) - 1}\x01"
        if isinstance(value, dict):
            return {k: marked(v) for k, v in value.items()}
        return [marked(v) for v in value] if isinstance(value, list) else value

    text = json.dumps(marked(document), ensure_ascii=ascii_only)
    return re.sub(r'"\\u0001(\d+)\\u0001"', lambda m: decimals[int(m.group(1))], text)


def each(change):
    def apply(events, random):
        for e in events:
            change(e, random)
        return events
    return apply


def as_text(form):
    def change(e, random):
        e.update({k: form(e[k]) for k in ("ts", "dur") if k in e})
        e.update({k: str(e[k]) for k in ("pid", "tid") if k in e})
        args = e.get("args") or {}
        args.update({k: str(args[k]) for k in ("device", "stream", "correlation") if k in args})
    return each(change)


def moved(by):
    return each(lambda e, random: e.update(ts=Decimal(str(e["ts"])) + Decimal(by)) if "ts" in e else None)


def nested(e, random):
    e["args"] = {"Input Dims": [[1, [{"device": 99}]], []], "inner": {"device": 77, "stream": 3, "ph": "B"},
                 **(e.get("args") or {}), "tail": [{}], "none": None}


def renamed(e, random):
    if e.get("cat", "").lower() == "kernel":
        e["name"] = random.choice(COMMUNICATION_NAMES)


def huge(e, random):
    e.setdefault("args", {})["correlation"] = random.choice([2**64 - 1, 2**63, -1, 2**100, 0])
    e["args"]["External id"] = 2**64 + random.randrange(9)


def redeviced(e, random):
    args = e.get("args") or {}
    if "device" in args and "stream" in args:
        args.update(device=random.randrange(4), stream=random.randrange(3))


FORMS = {
    "as it is": lambda events, random: events,
    "far back": moved(-10**15),
    "far on": moved("1234567890123.4567"),
    "texts": as_text(str),
    "exponents": as_text(lambda value: f"{Decimal(str(value)):E}"),
    "finer than nanoseconds": each(lambda e, random: e.update(
        {k: Decimal(str(e[k])) + Decimal("0.0005") for k in ("ts", "dur") if k in e})),
    "keys the other way": lambda events, random: [dict(reversed(e.items())) for e in events],
    "shuffled": lambda events, random: random.sample(events, len(events)),
    "nested": each(nested),
    "without arguments": each(lambda e, random: e.pop("args", None)),
    "nulls": each(lambda e, random: e.update(cname=None, id2={"local": "0x1"})),
    "huge numbers": each(huge),
    "no length": each(lambda e, random: e.update(dur=0) if "dur" in e and random.random() < .4 else None),
    "other names": each(renamed),
    "unicode": each(lambda e, random: e.update(name=f"{e.get('name')} \u00e4\u4e2d\U0001F600\"\\/\t")),
    "arrows without ends": lambda events, random: [e for e in events if e.get("ph") != "f"],
    "one stream": each(lambda e, random: e.update(tid=7, args={**(e.get("args") or {}), "stream": 7})),
    "several devices": each(redeviced),
    "capitals": each(lambda e, random: e.update(cat=random.choice([str.upper, str.title])(e.get("cat", "")))),
}


def files_of(document, folder):
    """Writes the forms of a document; yields each file with its events."""
    events = document if isinstance(document, list) else document["traceEvents"]
    for number, (form, change) in enumerate(FORMS.items()):
        changed = change(copy.deepcopy(events), random.Random(number))
        text = text_of(changed if number % 2 else {"schemaVersion": 1, "traceEvents": changed, "last": [{}]},
                       form != "unicode" or number % 2)
        (folder / f"{form}.json").write_text(text, encoding="utf-8")
        yield f"{form}.json", changed
    text = text_of(document)
    half = len(text) // 2
    for name, content in {
            "byte order mark.json": b"\xef\xbb\xbf" + text.encode(),
            "members.json.gz": b"".join(map(gzip.compress, (text[:half].encode(), b"", text[half:].encode()))),
            "filled up.json.gz": gzip.compress(text.encode()) + bytes(700),
            "escapes.json": text.replace('"kernel"', '"k\\u0065rnel"').replace('"dur"', '"d\\u0075r"').encode(),
            "commas.json": text.replace("}]", "},]").replace("}}", "},}").encode(),
            "blanks.json": text.replace(', "', ' ,\r\n\t"').encode()}.items():
        (folder / name).write_bytes(content)
        yield name, events


class TraceStatistics(unittest.TestCase):
    def check(self, trace):
        raw = trace.read_bytes()
        raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        document = json.loads(raw, strict=False, parse_float=Decimal)
        with tempfile.TemporaryDirectory() as directory:
            files = list(files_of(document, Path(directory)))
            workspace = f"{directory}/w.piper"
            imported = subprocess.run(
                [PIPERCTL, "import", "--json", "-o", workspace, *[f"{directory}/{name}" for name, _ in files]],
                capture_output=True, text=True, check=False)
            self.assertEqual(imported.returncode, 0, imported.stderr)
            stats = subprocess.run([PIPERCTL, "stats", "--json", workspace], capture_output=True, text=True,
                                   check=True)
        runs = {Path(r["file"]).name: r["run"] for r in json.loads(imported.stdout)["runs"]}
        found = {run["name"]: run for run in json.loads(stats.stdout)["runs"]}
        for name, events in files:
            got = found[runs[name]]
            for key, value in expected(events).items():
                with self.subTest(trace=trace.name, file=name, key=key):
                    if key.endswith("_pct") and value is not None:
                        self.assertAlmostEqual(got[key], value, delta=0.00005 + 1e-9)
                    else:
                        self.assertEqual(got[key], value)


for number, trace in enumerate(TRACES):
    setattr(TraceStatistics, f"test_{number}_{trace.name.split('.')[0]}", lambda self, t=trace: self.check(t))

if __name__ == "__main__":
    unittest.main()
