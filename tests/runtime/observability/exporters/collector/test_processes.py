"""How programs end and split: real processes, real signals, a real socket."""

from __future__ import annotations

import signal

import pytest

ONE_BEFORE_AND_ONE_AFTER = """
def work():
    for number in range(5):
        exporter.export(event(name="child", number=number))

if __name__ == "__main__":
    exporter = make(handle_sigterm=False)
    exporter.export(event(name="before"))
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    exporter.export(event(name="after"))
    sys.exit(child.exitcode)
"""


def names(collector):
    return sorted(event["name"] for event in collector.stored.values())


def test_events_of_a_forked_multiprocessing_child_arrive_once(program, collector):  # FR-01
    assert program(ONE_BEFORE_AND_ONE_AFTER).end() == (0, "", "")
    assert names(collector) == ["after", "before", *["child"] * 5]
    assert collector.duplicates == 0


def test_events_of_a_spawned_child_arrive_once(program, collector):  # FR-01
    source = """
exporter = make()

def work():
    for number in range(5):
        exporter.export(event(name="child"))

if __name__ == "__main__":
    exporter.export(event(name="before"))
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
    exporter.export(event(name="after"))
    sys.exit(child.exitcode)
"""
    assert program(source).end() == (0, "", "")
    assert names(collector) == ["after", "before", *["child"] * 5]
    assert collector.duplicates == 0


def test_events_of_a_process_pool_arrive_once(program, collector):  # FR-01
    source = """
import concurrent.futures

def work(number):
    exporter.export(event(name="child"))

if __name__ == "__main__":
    exporter = make(schedule_delay_s=3600.0)
    exporter.export(event(name="before"))
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(work, range(10)))
"""
    assert program(source).end()[0] == 0
    assert names(collector) == ["before", *["child"] * 10]
    assert collector.duplicates == 0


def test_a_child_of_os_fork_sends_its_own_events_and_none_of_its_parents(program, collector):  # FR-01
    source = """
exporter = make(schedule_delay_s=3600.0)
for _ in range(50):
    exporter.export(event(name="parent"))
pid = os.fork()
if pid == 0:
    assert exporter.stats()["queued"] == 0
    exporter.export(event(name="child"))
    sys.exit(0)
os.waitpid(pid, 0)
"""
    assert program(source).end() == (0, "", "")
    assert names(collector) == ["child", *["parent"] * 50]
    assert collector.duplicates == 0


def test_os_exit_loses_at_most_what_was_not_handed_over(program, collector):  # FR-01
    source = """
def work():
    exporter.export(event(name="handed over"))
    assert exporter.force_flush(30)
    exporter.export(event(name="perhaps lost"))
    os._exit(0)

if __name__ == "__main__":
    exporter = make()
    exporter.export(event(name="before"))
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    exporter.export(event(name="after"))
    sys.exit(child.exitcode)
"""
    assert program(source).end() == (0, "", "")
    assert set(names(collector)) - {"perhaps lost"} == {"after", "before", "handed over"}
    assert collector.duplicates == 0


def test_a_fork_in_the_middle_of_a_request_hangs_neither_side(program, collector, play):  # FR-01
    collector.play(play(hang=True, store=True))
    source = """
exporter = make()
exporter.export(event(name="parent"))
sys.stdin.read(0)
say("exported")
while not exporter._worker._transport._connection:
    time.sleep(0.001)
time.sleep(0.05)
pid = os.fork()
if pid == 0:
    exporter.export(event(name="child"))
    assert exporter.force_flush(30)
    say("child done")
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
say("waited")
exporter.force_flush(30)
"""
    running = program(source)
    assert running.read_line() == "exported"
    assert running.read_line() == "child done"
    assert running.read_line() == "waited"
    collector.release()
    assert running.end()[0] == 0
    assert names(collector) == ["child", "parent"]


def test_forks_under_fire_hang_nobody_and_lose_nothing(program, collector):  # FR-01
    source = """
exporter = make(schedule_delay_s=0.001)
stop = threading.Event()
count = [0]

def fire():
    while not stop.is_set():
        exporter.export(event(name="parent"))
        count[0] += 1
        time.sleep(0.0002)

thread = threading.Thread(target=fire, daemon=True)
thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        exporter.export(event(name="child"))
        os._exit(0 if exporter.force_flush(30) else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
thread.join()
exporter.close()
say(count[0] - exporter.dropped)
"""
    code, out, err = program(source).end()
    assert (code, err) == (0, "")
    assert names(collector).count("child") == 20
    assert names(collector).count("parent") == int(out)


@pytest.mark.parametrize("count", [1, 2_000])
@pytest.mark.parametrize("trouble", ["closed port", "no answer"])
def test_a_program_ends_with_its_own_exit_code_while_the_collector_is_away(
    program, collector, play, trouble, count
):  # FR-03
    if trouble == "closed port":
        collector.stop()
    else:
        collector.play(*[play(hang=True)] * 50)
    source = f"""
exporter = make(shutdown_timeout_s=0.5)
for _ in range({count}):
    exporter.export(event(name="unsent"))
sys.exit(7)
"""
    assert program(source).end() == (7, "", "")
    if trouble == "closed port":
        collector.start()
    collector._plays.clear()
    collector.release()
    assert program("assert make().force_flush(30)").end() == (0, "", "")
    assert len(collector.stored) == count


def test_a_second_close_does_nothing(program, collector, play):  # FR-03, EXP-01
    collector.play(*[play(hang=True)] * 3)
    source = """
exporter = make(shutdown_timeout_s=0.5)
exporter.export(event(name="unsent"))
exporter.close()
exporter.close()
say(exporter.stats()["queued"], exporter.dropped)
"""
    assert program(source).end() == (0, "0 0\n", "")


def test_ctrl_c_while_closing_ends_at_once_and_keeps_the_events(program, collector, play):  # FR-03
    collector.play(*[play(hang=True)] * 3)
    source = """
exporter = make(shutdown_timeout_s=3600.0)
for _ in range(100):
    exporter.export(event(name="unsent"))
say("exported")
try:
    exporter.close()
except KeyboardInterrupt:
    say("interrupted", exporter.stats()["queued"], exporter.dropped)
"""
    running = program(source)
    assert running.read_line() == "exported"
    collector.wait_for(lambda each: each.arrivals)
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.end()
    assert (code, err) == (0, "")
    assert out == "interrupted 0 0\n"
    collector._plays.clear()
    collector.release()
    assert program("assert make().force_flush(30)").end()[0] == 0
    assert len(collector.stored) == 100


def test_ctrl_c_at_exit_ends_at_once_and_keeps_the_exit_code(program, collector, play):  # FR-03
    collector.play(*[play(hang=True)] * 3)
    source = """
import atexit
exporter = make(shutdown_timeout_s=3600.0)
atexit.register(say, "ending")  # runs before the exporter's own
for _ in range(100):
    exporter.export(event(name="unsent"))
sys.exit(7)
"""
    running = program(source)
    assert running.read_line() == "ending"
    collector.wait_for(lambda each: each.arrivals)
    running.process.send_signal(signal.SIGINT)
    assert running.end() == (7, "", "")
    collector._plays.clear()
    collector.release()
    assert program("assert make().force_flush(30)").end()[0] == 0
    assert len(collector.stored) == 100


BUSY = """
exporter = make(schedule_delay_s=3600.0, max_batch=100_000)
exporter.export(event(name="unsent"))
say("ready")
while True:
    {body}
"""


@pytest.mark.parametrize(
    "body", ["time.sleep(0.01)", "exporter.export(event(name='busy'))", "exporter.force_flush(0.01)"]
)
def test_sigterm_hands_over_what_waits_and_the_exit_status_tells(program, collector, body):
    running = program(BUSY.format(body=body))
    assert running.read_line() == "ready"
    running.process.send_signal(signal.SIGTERM)
    code, _, err = running.end()
    assert (code, err) == (-signal.SIGTERM, "")
    assert program("assert make().force_flush(30)").end()[0] == 0
    assert names(collector).count("unsent") == 1


def test_sigterm_between_any_two_exports_leaves_no_hole(program, collector):
    source = """
import itertools
exporter = make(schedule_delay_s=0.001)
for number in itertools.count():
    exporter.export(event(number=number))
    if number == 3000:
        say("ready")
"""
    running = program(source)
    assert running.read_line() == "ready"
    running.process.send_signal(signal.SIGTERM)
    assert running.end()[0] == -signal.SIGTERM
    assert program("assert make().force_flush(30)").end()[0] == 0
    numbers = sorted(each["number"] for each in collector.stored.values())
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 3_000


def test_sigterm_while_the_collector_hangs_ends_in_time_and_keeps_the_events(program, collector, play):
    collector.play(*[play(hang=True)] * 3)
    source = """
exporter = make(shutdown_timeout_s=0.5)
for _ in range(1000):
    exporter.export(event(name="unsent"))
say("ready")
while True:
    time.sleep(0.01)
"""
    running = program(source)
    assert running.read_line() == "ready"
    running.process.send_signal(signal.SIGTERM)
    assert running.end()[0] == -signal.SIGTERM
    collector._plays.clear()
    collector.release()
    assert program("assert make().force_flush(30)").end()[0] == 0
    assert len(collector.stored) == 1_000


def test_sigterm_in_the_middle_of_close_still_keeps_the_events(program, collector, play):
    collector.play(*[play(hang=True)] * 3)
    source = """
exporter = make(shutdown_timeout_s=1.0)
for _ in range(1000):
    exporter.export(event(name="unsent"))
say("ready")
exporter.close()
time.sleep(3600)
"""
    running = program(source)
    assert running.read_line() == "ready"
    collector.wait_for(lambda each: each.arrivals)
    running.process.send_signal(signal.SIGTERM)
    assert running.end()[0] == -signal.SIGTERM
    collector._plays.clear()
    collector.release()
    assert program("assert make().force_flush(30)").end()[0] == 0
    assert len(collector.stored) == 1_000


def test_a_handler_of_the_programs_own_is_left_alone(program, collector):
    source = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
exporter = make()
exporter.export(event(name="sent"))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(3600)
"""
    assert program(source).end() == (3, "", "")
    assert names(collector) == ["sent"]


def test_an_exporter_made_in_a_thread_installs_no_handler(program):
    source = """
thread = threading.Thread(target=make)
thread.start()
thread.join()
say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
    assert program(source).end() == (0, "True\n", "")


def test_several_exporters_share_one_closing_time(program, collector, play):  # FR-03
    collector.play(*[play(hang=True)] * 40)
    source = """
exporters = [make(shutdown_timeout_s=5.0, api_key=str(number)) for number in range(20)]
for exporter in exporters:
    exporter.export(event(name="unsent"))
"""
    assert program(source).end() == (0, "", "")  # one after the other they would outlast the patience of `end`


def test_what_a_killed_process_had_spooled_is_sent_by_the_next_one(program, collector):
    collector.stop()
    source = """
exporter = make(max_queue=100)
for _ in range(51):
    exporter.export(event(name="spooled"))
while exporter.stats()["queued"]:
    exporter.force_flush(0.05)
    exporter.export(event(name="spooled"))
    if exporter.stats()["spooled"] >= 50:
        break
say(exporter.stats()["spooled"])
time.sleep(3600)
"""
    running = program(source)
    spooled = int(running.read_line())
    running.process.kill()
    running.end()
    collector.start()
    assert program("assert make().force_flush(30)").end() == (0, "", "")
    assert len(collector.stored) >= spooled >= 50


def test_a_process_killed_while_sending_from_the_spool_leaves_the_file_to_the_next(program, collector, play):
    collector.stop()
    assert program("exporter = make()\nfor _ in range(10): exporter.export(event(name='kept'))").end()[0] == 0
    collector.start()
    collector.play(play(hang=True, store=True))
    running = program("make().force_flush(3600)")
    collector.wait_for(lambda each: each.arrivals)
    # A living owner keeps the file to itself.
    assert program("assert not make().force_flush(0.3)").end() == (0, "", "")
    assert len(collector.arrivals) == 1
    running.process.kill()
    running.end()
    assert program("assert make().force_flush(30)").end() == (0, "", "")
    assert len(collector.stored) == 10
    assert collector.duplicates == 10


def test_an_exporter_that_nobody_holds_any_more_still_hands_over(program, collector):
    source = """
import gc
def run():
    exporter = make(schedule_delay_s=3600.0)
    exporter.export(event(name="sent"))
run()
gc.collect()
"""
    assert program(source).end() == (0, "", "")
    assert names(collector) == ["sent"]


def test_an_event_exported_while_the_interpreter_ends_is_kept(program, collector):
    source = """
import atexit
def late():
    exporter.export(event(name="late"))
exporter = make()
atexit.register(late)  # runs before the exporter's own, when threads can no longer be started
"""
    assert program(source).end() == (0, "", "")
    assert names(collector) == ["late"]
