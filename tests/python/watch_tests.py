"""The page of a run that trains: served on this machine alone, under its own address, closed with the run."""
import concurrent.futures
import http.client
import os
import subprocess
import sys
import urllib.error
import urllib.request

from tap import path, refuses

import heddle


def fetch(url, host=None):
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers, answer.read().decode()


def refused(url, host=None):
    try:
        fetch(url, host)
    except urllib.error.HTTPError as error:
        return error.code == 404
    return False


def shown(page, url):
    """The page, once it is there: it renews itself."""
    text = fetch(url)[1]
    while "Waiting for the run" in text and not page.wait(0.2):
        text = fetch(url)[1]
    return text


def test_watch():
    """a session is watched while it trains: losses, a token, this machine alone"""
    with heddle.Session("simplenet", "random:1x28x28", max_steps=60, batch=16, log_every=1,
                        out=path("watched")) as session:
        session.step(20)
        with heddle.watch(session) as page:
            text = shown(page, page.url)
            assert "simplenet" in text and "http-equiv=\"refresh\"" in text, text[:300]
            assert ">20 steps" in text  # of a run that has not ended
            where, _, token = page.url.rstrip("/").rpartition("/")
            assert where.startswith("http://127.0.0.1:") and len(token) >= 32
            for url in (where + "/", where + "/" + token[:-1] + "/", page.url + "x", page.url.rstrip("/")):
                assert refused(url), url
            assert refused(page.url, "evil.example:80") and not refused(page.url, "localhost:1")
            assert fetch(page.url)[0]["Cache-Control"] == "no-store"
            assert page.url in page._repr_html_()
        refuses(OSError, "refused", lambda: fetch(page.url))
        page.close()
        session.train()


def test_end():
    """the page ends with the run, after its last state was fetched"""
    run = heddle.train("simplenet", "random:1x28x28", max_steps=5, batch=16, out=path("ended"))
    page = heddle.watch(run)
    text = fetch(page.url)[1]
    while not page.wait(0.1):
        text = fetch(page.url)[1]
    assert "http-equiv=\"refresh\"" not in text and "simplenet" in text
    assert repr(page) == "Watch(closed)"


def read_to_the_end(program, url):
    """Whether each page was whole, those too that were asked for just before the end."""
    while program.poll() is None:
        try:
            if "doctype" not in fetch(url)[1].lower():
                return False
        except http.client.IncompleteRead:
            return False
        except OSError:
            break
    return True


def test_command():
    """python -m heddle watch RUN prints the address and ends with the run; bad words are one line"""
    heddle.train("simplenet", "random:1x28x28", max_steps=5, batch=16, out=path("command"))
    with subprocess.Popen([sys.executable, "-m", "heddle", "watch", path("command")], stdout=subprocess.PIPE,
                          text=True) as program:
        url = program.stdout.readline().strip()
        with concurrent.futures.ThreadPoolExecutor(4) as readers:
            assert list(readers.map(lambda _: read_to_the_end(program, url), range(4))) == [True] * 4
        assert program.wait(60) == 0
    for words, says in ((["nothing"], "the folder of a run, found 'nothing'"), ([], "found none"),
                        (["a", "b"], "found 'b'"), (["a", "--port", "x"], "--port expects")):
        done = subprocess.run([sys.executable, "-m", "heddle", "watch", *words], stderr=subprocess.PIPE, text=True,
                              check=False, env={**os.environ})
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    refuses(heddle.FileError, "start the run first", lambda: heddle.watch("nothing"))
    refuses(heddle.UsageError, "port expects", lambda: heddle.watch(".", port=70000))
