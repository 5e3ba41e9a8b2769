"""Following: what comes in which order, filters, positions, and what was collected or damaged meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from public_calls import Point

from chronicle_py import (
    Branch,
    BranchChange,
    CaughtUp,
    CorruptStore,
    Followed,
    Gone,
    InvalidName,
    InvalidOperation,
    Store,
)
from chronicle_py.exchange import export_lines, import_file
from chronicle_py.feed import BATCH, Item
from chronicle_py.kv import EVENTS, FEED, LINEAGES, REFS, Writer
from chronicle_py.records import FeedRecord, decode_feed, encode, pack_lineage, pack_number, pack_position, seal


def told(items: Iterable[Item]) -> list[str]:
    """The items in a few words each: "main 3", "fork side None>3", "caught up", "gone main 1/50"."""
    return [_word(item) for item in items]


def _word(item: Item) -> str:
    if isinstance(item, Followed):
        return f"{item.branch} {item.event.seq}"
    if isinstance(item, BranchChange):
        return f"{item.kind} {item.branch} {item.before and item.before[0]}>{item.after and item.after[0]}"
    return "caught up" if isinstance(item, CaughtUp) else f"gone {item.branch} {item.entries}/{item.events}"


def past(store: Store, branch: str | list[str] | None = None, **options: Any) -> list[str]:
    return told(store.follow(branch, live=False, **options))


def append(branch: Branch, count: int, type: str = "note") -> None:
    for i in range(count):
        branch.append(type, i)


@pytest.fixture
def story(store: Store, main: Branch) -> Store:
    """Two branches by turns, a rewind, a deletion."""
    append(main, 3)
    side = main.fork("side", at=2)
    append(side, 2)
    append(main, 1)
    append(side, 1, "other")
    main.rewind(1)
    append(main, 1, "other")
    store.delete_branch("side")
    return store


STORY = [
    "create main None>0", "main 1", "main 2", "main 3", "fork side None>2", "side 3", "side 4", "main 4", "side 5",
    "rewind main 4>1", "main 2", "delete side 5>None",
]  # fmt: skip


def test_everything_comes_in_the_order_of_the_commits(story: Store) -> None:
    items = list(story.follow(live=False))
    assert told(items) == [*STORY, "caught up"]
    event, change = items[3], items[9]
    assert isinstance(event, Followed)
    assert event.event.payload == 2
    assert isinstance(change, BranchChange)
    before = items[7]
    assert isinstance(before, Followed)
    assert change.before == (4, before.event.id)


def test_a_new_store_has_its_main_branch_made(store: Store) -> None:
    assert list(store.follow(live=False))[:-1] == [
        BranchChange("create", "main", None, (0, ""), next(store.follow()).position)
    ]


def test_a_deleted_branch_that_is_made_again_or_restored(store: Store, main: Branch) -> None:
    side = main.fork("side")
    append(side, 2)
    store.delete_branch("side")
    append(store.orphan("side"), 1)
    store.delete_branch("side")
    append(store.restore_branch("side"), 1)
    assert past(store, branch="side")[:-1] == [
        "fork side None>0", "side 1", "side 2", "delete side 2>None", "orphan side None>0", "side 1",
        "delete side 1>None", "restore side None>1", "side 2",
    ]  # fmt: skip


@pytest.mark.parametrize("place", range(len(STORY) + 1))
def test_each_position_goes_on_right_behind_its_item(story: Store, place: int) -> None:
    items = list(story.follow(live=False))
    assert past(story, start=items[place].position) == [*STORY[place + 1 :], "caught up"]


def test_a_long_past_comes_in_batches_and_a_run_goes_on(store: Store, main: Branch) -> None:
    with store.transaction():
        append(main, 2 * BATCH + 10)
    follower = store.follow()
    assert told(next(follower) for _ in range(2 * BATCH + 12)) == [
        "create main None>0", *(f"main {seq}" for seq in range(1, 2 * BATCH + 11)), "caught up",
    ]  # fmt: skip
    append(main, 2)
    assert told([next(follower), next(follower)]) == [f"main {2 * BATCH + 11}", f"main {2 * BATCH + 12}"]
    assert follower.next(timeout=0) is None


def test_large_events_end_a_batch_early(store: Store, main: Branch) -> None:
    with store.transaction():
        for _ in range(300):
            main.append("large", b"x" * 50_000)
    follower = store.follow(start="now", live=False)
    assert told(follower) == ["caught up"]
    follower = store.follow()
    assert len(follower._items) < 200
    assert len(list(store.follow(types=["large"], live=False))) == 301


def test_the_past_ends_where_the_following_began(store: Store, main: Branch) -> None:
    append(main, 2)
    follower = store.follow(live=False)
    append(main, 2)
    main.fork("side")
    assert told(follower) == ["create main None>0", "main 1", "main 2", "caught up"]
    assert past(store, start=follower.position) == ["main 3", "main 4", "fork side None>4", "caught up"]


def test_now_is_the_moment_of_the_call(story: Store) -> None:
    follower = story.follow(start="now")
    append(story.branch(), 1)
    assert told([next(follower), next(follower)]) == ["caught up", "main 3"]


def test_filters(story: Store) -> None:
    story.register_state("log", kind="append_log")
    story.branch().state("log").append(1)
    everything = [*STORY, "main 3"]
    assert past(story, "main")[:-1] == [word for word in everything if "main" in word]
    assert past(story, ["main", "side", "no such branch"])[:-1] == everything
    assert past(story, []) == ["caught up"]
    assert past(story, types=["other"])[:-1] == ["side 5", "main 2"]  # and no changes of branches
    assert past(story, types=["other", "state.append"], branch="main")[:-1] == ["main 2", "main 3"]
    assert past(story, slots=["log", "no such slot"])[:-1] == ["main 3"]
    assert past(story, slots=["log"], types=["note"]) == ["caught up"]


def test_what_is_filtered_out_counts_for_the_position(story: Store) -> None:
    filters: list[dict[str, Any]] = [{"types": ["never"]}, {"branch": "never"}]
    for options in filters:
        follower = story.follow(**options, live=False)
        (mark,) = list(follower)
        assert mark.position == follower.position
        append(story.branch(), 1)
        assert past(story, start=mark.position)[-2:] == [f"main {story.branch().seq}", "caught up"]
        assert len(past(story, start=mark.position)) == 2


def test_payloads_are_decoded_as_registered(store: Store, main: Branch) -> None:
    store.register_event("point", Point)
    main.append("point", {"x": 1})
    (event, _) = list(store.follow(types=["point"], live=False))
    assert isinstance(event, Followed)
    assert event.event.payload == Point(1)


def test_an_import_says_where_its_branches_went_and_then_their_events(
    story: Store, opener: Opener, tmp_path: Path
) -> None:
    side = story.restore_branch("side")
    append(side, 70)
    story.branch().fork("same")
    path = tmp_path / "export"
    path.write_bytes(b"".join(export_lines(story)))
    other = opener(tmp_path / "other")
    append(other.orphan("own"), 1)
    import_file(other, path)
    found = past(other)
    assert [word for word in found if not word.split()[1].isdigit()] == [
        "create main None>0", "orphan own None>0", "import main 0>2", "import same None>2", "import side None>75",
        "caught up",
    ]  # fmt: skip
    events = [item for item in other.follow(live=False) if isinstance(item, Followed)]
    assert len({e.event.id for e in events}) == len(events) == 1 + 2 + 74
    append(other.branch("same"), 1)
    append(other.branch("side"), 1)
    assert past(other)[-3:] == ["same 3", "side 76", "caught up"]


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "17"}, "'17' is no position; a position is what an item's .position says"),
        ({"start": ""}, "is no position"),
        ({"start": "1.2-0123456789abcdeg"}, "is no position"),
        ({"start": "-1.2-0123456789abcdef"}, "is no position"),
        ({"start": "1.99999999999999999999-0123456789abcdef"}, "is no position"),
        ({"start": 17}, r"follow\(start=\) is the .position of an item, \"now\", or None for the beginning, not 17"),
        ({"start": "1.2-0123456789abcdef"}, "is a position in another store"),
        ({"types": "note"}, r"follow\(types=\) takes several, not one str; write \('note',\)"),
        ({"slots": "log"}, r"follow\(slots=\) takes several"),
        ({"branch": 5}, r"follow\(branch=\) takes names, not 5"),
        ({"live": 1}, r"follow\(live=\) is True or False, not 1"),
    ],
)
def test_bad_arguments(story: Store, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOperation, match=message):
        story.follow(**options)


def test_bad_names_and_timeouts(story: Store) -> None:
    for options in ({"branch": "a\nb"}, {"types": [""]}, {"slots": ["a//b"]}, {"types": [5]}):
        with pytest.raises(InvalidName):
            story.follow(**options)
    for timeout in ("1", True, float("nan")):
        with pytest.raises(InvalidOperation, match=r"next\(timeout=\) is a number of seconds or None"):
            story.follow().next(timeout)  # type: ignore[arg-type]


def test_a_position_of_another_store_is_refused(story: Store, opener: Opener, tmp_path: Path) -> None:
    other = opener(tmp_path / "other")
    place = next(other.follow()).position
    with pytest.raises(InvalidOperation, match="is a position in another store; positions hold in the store"):
        story.follow(start=place)


def test_a_position_that_was_made_up_is_refused(story: Store) -> None:
    (*_, last) = list(story.follow(live=False))
    store = last.position[-8:]
    for place in ("99.0-01234567", "2.1-01234567", "2.99-01234567", "3.0-01234567", "12345678901234567.0-00000000"):
        with pytest.raises(InvalidOperation, match="is of a store that held other things than this one"):
            story.follow(start=place + store)


def test_following_inside_a_transaction_is_refused(story: Store) -> None:
    follower = story.follow(start="now")
    with story.transaction():
        story.branch().append("note", "uncommitted")
        with pytest.raises(InvalidOperation, match="leave its `with` block first"):
            story.follow()
        assert next(follower) == CaughtUp(follower.position)  # was read before
        with pytest.raises(InvalidOperation, match="leave its `with` block first"):
            next(follower)
    assert told([next(follower)]) == ["main 3"]


def test_a_closed_store_ends_following_with_an_error(opener: Opener, tmp_path: Path) -> None:
    store = opener(tmp_path / "own")
    follower = store.follow()
    store.close()
    assert told([next(follower), next(follower)]) == ["create main None>0", "caught up"]
    for _ in range(2):
        with pytest.raises(InvalidOperation, match="was closed; open it again"):
            next(follower)
    with pytest.raises(InvalidOperation, match="was closed; open it again"):
        store.follow()


def test_a_closed_follower_has_ended(story: Store) -> None:
    with story.follow() as follower:
        next(follower)
        place = follower.position
        assert repr(follower) == f"<Follower of {story.path} at {place}>"
    follower.close()
    assert follower.next() is None
    assert list(follower) == []
    assert repr(follower) == f"<Follower of {story.path} at {place} (closed)>"
    assert past(story, start=follower.position) == [*STORY[1:], "caught up"]


# --- collected, and damaged -----------------------------------------------------------------------------------------


class Surgeon:
    """Changes records as nobody does from outside."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def feed(self) -> dict[int, FeedRecord]:
        with self.store._engine.read() as reader:
            pairs = reader.scan(FEED, b"")
        return {int.from_bytes(key, "big"): decode_feed(key, record, "it") for key, record in pairs}

    def _writer(self) -> Writer:
        self.store._engine._tip = None
        return self.store._engine.kv.write()

    def collect(self, first: int, last: int) -> None:
        """What a collection makes of the feed's entries first…last."""
        stop = self.feed()[first].stop_before
        writer = self._writer()
        for number in range(first + 1, last + 1):
            writer.delete(FEED, pack_number(number))
        key = pack_number(first)
        writer.put(FEED, key, seal(key, encode(FeedRecord("gone", "", 0, 0, stop))))
        writer.commit()

    def remove(self, space: int, *keys: bytes) -> None:
        writer = self._writer()
        for key in keys:
            assert writer.delete(space, key)
        writer.commit()


@pytest.fixture
def surgeon(store: Store) -> Surgeon:
    return Surgeon(store)


# The feed of `story`: 1 create main, 2 run main, 3 fork side, 4 run side, 5 run main, 6 run side, 7 rewind main,
# 8 run main, 9 delete side.


def test_entries_that_were_collected_leave_one_mark(story: Store, surgeon: Surgeon) -> None:
    surgeon.collect(3, 4)
    surgeon.collect(6, 6)
    assert past(story) == [*STORY[:4], "gone None 2/None", "main 4", "gone None 1/None", *STORY[9:], "caught up"]
    assert past(story, "main")[4:6] == ["gone None 2/None", "main 4"]  # nobody knows what it was: all are told


@pytest.mark.parametrize("place", range(12))
def test_a_position_among_what_was_collected_goes_on_with_the_mark(story: Store, surgeon: Surgeon, place: int) -> None:
    start = list(story.follow(live=False))[place].position
    surgeon.collect(3, 6)
    rest = ["gone None 4/None", *STORY[9:], "caught up"]
    if place < 4:
        rest = [*STORY[place + 1 : 4], *rest]
    elif place > 8:
        rest = [*STORY[place + 1 :], "caught up"]
    assert past(story, start=start) == rest


def test_a_mark_comes_once_and_again_when_more_went(story: Store, surgeon: Surgeon) -> None:
    surgeon.collect(4, 5)
    items = list(story.follow(live=False))
    (mark,) = [item for item in items if isinstance(item, Gone)]
    assert past(story, start=mark.position) == [*STORY[8:], "caught up"]
    surgeon.collect(4, 6)
    assert past(story, start=mark.position) == ["gone None 3/None", *STORY[9:], "caught up"]


def test_the_end_of_the_feed_was_collected(story: Store, surgeon: Surgeon) -> None:
    items = list(story.follow(live=False))
    live = story.follow(start=items[-3].position)
    told([next(live), next(live)])
    surgeon.collect(9, 9)
    assert past(story)[-3:] == ["main 2", "gone None 1/None", "caught up"]
    mark = list(story.follow(live=False))[-1].position
    assert past(story, start="now") == past(story, start=mark) == ["caught up"]
    append(story.branch(), 2)
    assert past(story, start=mark) == ["main 3", "main 4", "caught up"]
    assert told([next(live), next(live), next(live)]) == ["gone None 1/None", "main 3", "main 4"]


def test_numbers_that_are_given_again_after_a_collection_skip_nothing(story: Store, surgeon: Surgeon) -> None:
    """The feed's end was collected, from a position on that a follower had passed, and the feed went on since."""
    places = {word: item.position for word, item in zip(STORY, story.follow(live=False), strict=False)}
    surgeon.collect(6, 9)
    append(story.branch(), 1)
    story.branch().fork("new")
    append(story.branch("new"), 1)
    rest = ["main 3", "fork new None>3", "new 4", "caught up"]
    for word in ("side 5", "rewind main 4>1", "main 2", "delete side 5>None"):
        assert past(story, start=places[word]) == ["gone None 1/None", *rest]


def test_a_run_whose_lineage_was_collected(story: Store, surgeon: Surgeon) -> None:
    items = list(story.follow(live=False))
    lineage = surgeon.feed()[4].lineage
    surgeon.remove(LINEAGES, pack_lineage(lineage))
    surgeon.remove(EVENTS, *(pack_position(lineage, seq) for seq in (3, 4, 5)))
    expected = [*STORY[:5], "gone side 1/2", "main 4", "gone side 1/1", *STORY[9:], "caught up"]
    assert past(story) == expected
    assert past(story, "main")[-4:] == ["main 4", "rewind main 4>1", "main 2", "caught up"]
    assert past(story, types=["other"]) == ["gone side 1/2", "gone side 1/1", "main 2", "caught up"]
    assert past(story, start=items[5].position) == ["gone side 1/1", *expected[6:]]  # in the midst of the run
    assert past(story, start=items[6].position) == expected[6:]  # at its end: nothing more was in it
    for place, item in enumerate(story.follow(live=False)):
        assert past(story, start=item.position) == (expected[place + 1 :] or ["caught up"])


def test_the_end_of_a_lineage_was_collected(story: Store, surgeon: Surgeon) -> None:
    """As after an undo whose events went: what lies behind in the file is the same sequences of the next lineage."""
    append(story.branch(), 2)
    lineage = surgeon.feed()[2].lineage
    surgeon.remove(EVENTS, *(pack_position(lineage, seq) for seq in (3, 4)))
    expected = [*STORY[:3], "gone main 1/1", *STORY[4:7], "gone main 1/1", *STORY[8:]]
    assert past(story)[:-3] == expected
    for place, item in enumerate(story.follow(live=False)):
        if place < len(expected):
            assert past(story, start=item.position)[:-3] == expected[place + 1 :]


def test_damage_is_no_collection(story: Store, surgeon: Surgeon) -> None:
    feed = surgeon.feed()
    with story._engine.read() as reader:
        ref = reader.get(REFS, b"main")
    assert ref is not None
    damages = [
        (EVENTS, pack_position(feed[2].lineage, 2), "sequences 1 and 3 of lineage 1, of which feed entry 2 tells"),
        (EVENTS, pack_position(feed[8].lineage, 2), "sequences 2 and 2 of lineage 3, of which feed entry 8 tells"),
        (FEED, pack_number(5), "feed entries 5 to 5 are missing"),
        (FEED, pack_number(1), "first entries are missing"),
    ]
    for space, key, message in damages:
        with story._engine.read() as reader:
            value = reader.get(space, key)
        assert value is not None
        surgeon.remove(space, key)
        with pytest.raises(CorruptStore, match=message):
            past(story)
        writer = surgeon._writer()
        writer.put(space, key, value)
        writer.commit()
    assert past(story) == [*STORY, "caught up"]
    append(story.branch(), 1)
    surgeon.remove(REFS, b"main")
    with pytest.raises(CorruptStore, match="the last one, is a run of events on branch 'main', which is not there"):
        past(story)
