"""A process that forks with stores open: the child has them too, and harms neither the parent nor the file.

LMDB forbids the use of an environment across fork(), and py-lmdb refuses to open a file twice in one process; see
`lmdb_kv.py`.
"""

from __future__ import annotations

from pathlib import Path

from script import run


def test_a_forked_child_reads_and_writes_while_the_parent_goes_on(tmp_path: Path) -> None:
    out = run(
        """
        store = chronicle.open(path, durability="relaxed")
        log = fill(store, range(100))
        children = []
        for number in range(4):
            child = os.fork()
            if child == 0:
                assert list(log)[:100] == list(range(100))
                for i in range(50):
                    log.append([number, i])
                if number == 0:
                    grandchild = os.fork()
                    if grandchild == 0:
                        log.append("grandchild")
                        sys.exit(0)
                    waited(grandchild)
                sys.exit(0)  # not os._exit: the interpreter frees all it has
            children.append(child)
        for i in range(50):
            log.append(["parent", i])
        for child in children:
            waited(child)
            assert len(log) > 100
        items = list(log)
        assert len(items) == 100 + 5 * 50 + 1, len(items)
        for who in (0, 1, 2, 3, "parent"):
            assert [i for w, i in (x for x in items if isinstance(x, list)) if w == who] == list(range(50))
        assert len({event.salt for event in store.branch().events()}) == len(items)  # no salt of the parent's again
        check(store)
        print("ok")
        """,
        tmp_path / "store",
    )
    assert out == "ok\n"


def test_a_fork_while_another_thread_is_in_a_transaction(tmp_path: Path) -> None:
    run(
        """
        store = chronicle.open(path, durability="relaxed")
        log = fill(store, ["before"])
        inside, leave = threading.Event(), threading.Event()
        def work():
            with store.transaction():
                log.append("thread")
                inside.set()
                leave.wait(20)
        thread = threading.Thread(target=work)
        thread.start()
        inside.wait(20)
        child = os.fork()
        if child == 0:
            assert list(log)[:1] == ["before"]
            log.append("child")  # waits for the parent's transaction
            assert list(log) == ["before", "thread", "child"]
            os._exit(0)
        time.sleep(0.02)
        leave.set()
        thread.join()
        waited(child)
        log.append("parent")
        assert list(log) == ["before", "thread", "child", "parent"]
        check(store)
        """,
        tmp_path / "store",
    )


def test_a_child_forked_inside_a_transaction_cannot_commit_it(tmp_path: Path) -> None:
    run(
        """
        store = chronicle.open(path, durability="relaxed")
        log = fill(store, ["before"])
        child = None
        try:
            with store.transaction():
                log.append("in the transaction")
                child = os.fork()
                if child:
                    waited(child)
        except chronicle.InvalidOperation as error:
            assert child == 0 and "forked" in str(error), error
            sys.exit(0)
        assert child
        try:
            with store.transaction():
                log.append("never")
                child = os.fork()
                if child:
                    waited(child)
                raise LookupError
        except LookupError:
            if not child:
                sys.exit(0)
        assert list(log) == ["before", "in the transaction"]
        check(store)
        """,
        tmp_path / "store",
    )


def test_a_store_opened_or_closed_in_a_forked_child_leaves_the_parent_alone(tmp_path: Path) -> None:
    run(
        """
        store = chronicle.open(path, durability="relaxed")
        log = fill(store, range(10))
        child = os.fork()
        if child == 0:
            store.close()
            with chronicle.open(path, durability="relaxed") as other:
                other.branch().state("log").append("child")
            sys.exit(0)
        waited(child)
        log.append("parent")
        assert list(log)[10:] == ["child", "parent"]
        check(store)
        """,
        tmp_path / "store",
    )
