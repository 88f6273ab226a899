"""A server among hostile clients: `python tools/soak.py --minutes 30`, with `--clients` honest ones beside them.

The first and the last tenth of the time are honest clients alone. Then come silent connections, halves of requests, bodies of a byte a second,
bodies that are too large, too deep or no JSON, and connections that come and go. What must hold: no honest client gets an error, the 99th
percentile of their seconds stays within twice that alone, memory and open files of the server stay flat. The last line is `N passed, N failed`.
"""
import argparse, contextlib, json, os, random, re, signal, socket, subprocess, sys, tempfile, threading, time
from http.client import HTTPConnection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUIET = dict(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", PYTHONPATH=str(ROOT))
HEAD = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
MADE = """
from rank_bert.data import builtin_corpus
from rank_bert.rankers.untrained import untrained_ranker
untrained_ranker(builtin_corpus(max_documents=300).documents, 'minilm').save('ranker')
"""


# Honest clients

def honest(port: int, ends: float, every: float, seed: int, found: list, wrong: list) -> None:
    "Ask one question after another on one connection; keep when, how long and what went wrong."
    words, rng = "file list open read path string number time copy sort".split(), random.Random(seed)
    line = HTTPConnection("127.0.0.1", port, timeout=60)
    while time.time() < ends:
        body = json.dumps(dict(query=" ".join(rng.choices(words, k=4)), k=3))
        start = time.perf_counter()
        try:
            line.request("POST", "/search", body, {"Content-Type": "application/json"})
            answer = line.getresponse()
            if answer.status != 200 or len(json.loads(answer.read())["results"]) != 3: wrong.append(f"status {answer.status}")
        except Exception as e:
            wrong.append(f"{type(e).__name__}: {e}")
            line.close()
        found.append((time.time(), time.perf_counter() - start))
        time.sleep(rng.uniform(0, 2*every))
    line.close()


# Hostile clients

def connect(port: int) -> socket.socket: return socket.create_connection(("127.0.0.1", port), 10)

def silent(port: int) -> None:
    "400 connections that say nothing, or begin a request and stop."
    lines = [connect(port) for _ in range(400)]
    for one in lines[::2]: one.sendall(b"POST /search HTTP/1.1\r\nHost: loc")
    time.sleep(20)
    for one in lines: one.close()

def slow(port: int) -> None:
    "A body of a byte a second."
    with connect(port) as line:
        line.sendall(HEAD + b"5000\r\n\r\n")
        for _ in range(60):
            line.sendall(b" ")
            time.sleep(1)

def large(port: int) -> None:
    "A body that is larger than it may be, with its size or without."
    with connect(port) as line:
        line.sendall(random.choice([HEAD + b"5000000\r\n\r\n", HEAD.replace(b"Content-Length: ", b"Transfer-Encoding: chunked\r\n\r\n")]))
        for _ in range(50): line.sendall(b"10000\r\n" + b"x"*65536 + b"\r\n")
    time.sleep(1)

def odd(port: int) -> None:
    "Requests that are no requests."
    deep = b'{"query": "a", "where": ' + b'{"a":'*2000 + b"1" + b"}"*2001
    wide = json.dumps(dict(query="a", where=dict(x=list(range(100_000))))).encode()
    for body in (deep, wide, b"[", b"\xff", b'{"query": ""}', b'{"query": "a", "k": -1}', b'{"query": "' + b"a "*20_000 + b'"}'):
        with connect(port) as line:
            line.sendall(HEAD + b"%d\r\n\r\n" % len(body) + body)
            line.recv(1000)
    for content in (os.urandom(500), b"GET / HTTP/9.9\r\n\r\n", b"GET /%00 HTTP/1.1\r\nHost: elsewhere\r\n\r\n"):
        with connect(port) as line:
            line.sendall(content)
            line.recv(1000)
    time.sleep(.5)

def churn(port: int) -> None:
    "Connections that come and go, some in the middle of an answer."
    for _ in range(50):
        with connect(port) as line:
            if random.random() < .3: line.sendall(HEAD + b"24\r\n\r\n" + b'{"query": "a b c d e f"}')
        time.sleep(.05)

HOSTILE = silent, slow, slow, slow, slow, large, odd, churn

def again(do, port: int, ends: float) -> None:
    "Do something until the time is over; that the server ends a connection is what it should do."
    while time.time() < ends:
        with contextlib.suppress(OSError): do(port)
        time.sleep(.2)


# The run

def server(place: Path) -> tuple[subprocess.Popen, int]:
    "A server on a small ranker, and its port."
    env = os.environ | QUIET
    subprocess.run([sys.executable, "-c", MADE], cwd=place, env=env, check=True)
    code = "from rank_bert.cli import program; program()"
    with open(place/"log", "wb") as log:
        run = subprocess.Popen([sys.executable, "-c", code, "serve", "ranker", "--port", "0", "--seconds", "10"], cwd=place, env=env, stdout=log, stderr=log)
    for _ in range(600):
        if told := re.search(r" at http://127.0.0.1:(\d+)\n", (place/"log").read_text()): return run, int(told[1])
        time.sleep(.2)
    run.kill()
    raise RuntimeError((place/"log").read_text()[-2000:])

def state(pid: int) -> tuple[float, int]:
    "Memory in MB and open files of a process."
    kb = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]
    return int(kb)/1000, len(os.listdir(f"/proc/{pid}/fd"))

def quantile(values: list[float], q: float) -> float: return sorted(values)[min(int(q*len(values)), len(values) - 1)]

def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--every", type=float, default=.5, help="seconds between two questions of an honest client, in the mean")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run, port = server(Path(place))
        whole, start = 60*given.minutes, time.time()
        begins, ends = start + .1*whole, start + .9*whole
        found, wrong, states = [], [], []
        threads = [threading.Thread(target=honest, args=(port, start + whole, given.every, i, found, wrong)) for i in range(given.clients)]
        for one in threads: one.start()
        attackers = os.fork()
        if not attackers:  # in a process of its own, so that its work does not delay the honest clients
            os.nice(10)
            time.sleep(max(begins - time.time(), 0))
            attacks = [threading.Thread(target=again, args=(do, port, ends), daemon=True) for do in HOSTILE]
            for one in attacks: one.start()
            time.sleep(max(ends - time.time(), 0))
            os._exit(0)
        while time.time() < start + whole:
            states.append((time.time(), *state(run.pid)))
            time.sleep(min(10, whole/60))
        for one in threads: one.join()
        os.waitpid(attackers, 0)
        stopping = time.monotonic()
        run.send_signal(signal.SIGTERM)
        code, stopped, log = run.wait(60), time.monotonic() - stopping, (Path(place)/"log").read_text()
    alone = [s for at, s in found if at < begins or at > ends + .02*whole]
    beside = [s for at, s in found if begins <= at <= ends]
    middle = [s for s in states if begins + .1*whole < s[0] < ends]
    first, last = middle[:len(middle)//3], middle[-(len(middle)//3):]
    memory = [quantile([m for _, m, _ in part], .5) for part in (first, last)]
    files = max(f for *_, f in states), states[-1][2]
    print(f"honest alone: {len(alone):,} answers, median {1000*quantile(alone, .5):.0f} ms, p99 {1000*quantile(alone, .99):.0f} ms")
    print(f"among hostile: {len(beside):,} answers, median {1000*quantile(beside, .5):.0f} ms, p99 {1000*quantile(beside, .99):.0f} ms")
    print(f"errors of honest clients: {len(wrong)} {wrong[:3]}")
    print(f"memory of the server: {memory[0]:.0f} MB in the first third, {memory[1]:.0f} MB in the last; open files: {files[0]} at most, {files[1]} at the end")
    print(f"log: {len(log):,} characters; SIGTERM: ended after {stopped:.1f} s with {code}")
    held = dict(errors=not wrong, p99=quantile(beside, .99) <= 2*quantile(alone, .99), memory=memory[1] < 1.05*memory[0] + 5,
                files=files[1] < 100, log="Traceback" not in log and len(log) < 100*given.minutes*60, end=code == 0)
    for name, holds in held.items(): print("ok  " if holds else "FAIL", name)
    if not held["log"]: print(log[-3000:])
    print(f"{sum(held.values())} passed, {len(held) - sum(held.values())} failed")
    sys.exit(not all(held.values()))

if __name__ == "__main__": main()
