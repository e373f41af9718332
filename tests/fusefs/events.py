"""events.py - poll(2) and epoll(7) on the files of the mount; prints what is not as it should be.

usage: events.py MOUNT PID CONTROL ANSWERS SERVING: the process PID is a program.c that listens to the pipe CONTROL and
answers through ANSWERS; SERVING is the pid of the daemon, which is killed.
"""
import errno
import os
import select
import signal
import sys
import time

mount, pid, control, answers, serving = sys.argv[1:]
control = open(control, "w", buffering=1)
answers = open(answers)
IN, PRI = select.POLLIN, select.POLLPRI | select.POLLERR


def check(what, expected, actual):
    if expected != actual:
        print(f"{what}: expected {expected}, got {actual}")


def happen():
    """An allocation is refused."""
    control.write("alloc 4000000000\n")
    check("the program's answer", "ENOMEM", answers.readline().strip())


def poll(fd, seconds, events=select.POLLIN | select.POLLPRI):
    poller = select.poll()
    poller.register(fd, events)
    ready = poller.poll(seconds * 1000)
    return ready[0][1] if ready else 0


def counters(fd):
    return dict(line.split() for line in os.pread(fd, 4096, 0).decode().splitlines())


own = os.open(f"{mount}/{pid}/events", os.O_RDONLY)
all_ = os.open(f"{mount}/events", os.O_RDONLY)
other = os.open(f"{mount}/{pid}/events", os.O_RDONLY)
for fd in own, all_:
    check("before the first read", IN | PRI, poll(fd, 0))
    counters(fd)
    check("after it", IN, poll(fd, 0))
    check("nothing happens", 0, poll(fd, 0.3, select.POLLPRI))
counters(other)
before = int(counters(own)["oom"])
all_before = int(counters(all_)["oom"])
began = time.monotonic()
happen()
check("an event", PRI, poll(own, 5, select.POLLPRI))
if time.monotonic() - began > 2:
    print("an event takes", time.monotonic() - began, "s")
check("it stays until it is read", IN | PRI, poll(own, 5))
check("read in the middle is not read", b"", os.pread(own, 10, 4000))
check("so it stays", IN | PRI, poll(own, 0))
check("its count", before + 1, int(counters(own)["oom"]))
check("read", IN, poll(own, 0))
check("the machine's", PRI, poll(all_, 5, select.POLLPRI))
counters(all_)
check("another's reading is not mine", IN | PRI, poll(other, 0))

# Edge triggered: one wake for each change, whether it is read or not.
edge = select.epoll()
edge.register(own, select.EPOLLPRI | select.EPOLLET)
edge.poll(0.3)
for _ in range(3):
    happen()
    check("epoll, edge triggered", [(own, PRI)], edge.poll(5))
    check("once", [], edge.poll(0.4))
edge.close()
counters(own)

# Files that are no counters are ready at once.
check("a text", select.POLLIN, poll(os.open(f"{mount}/stats", os.O_RDONLY), 5))
check("a value", select.POLLIN | select.POLLOUT,
      poll(os.open(f"{mount}/{pid}/max", os.O_RDWR), 5, select.POLLIN | select.POLLOUT | select.POLLPRI))

# Who waits when the daemon is killed is woken by the next one, however much later it happens.
child = os.fork()
if child == 0:
    count = counters(own)["oom"]
    while count == counters(own)["oom"]:
        if poll(own, 20, select.POLLPRI) != PRI:
            os._exit(1)
    os._exit(0)
time.sleep(0.3)
os.kill(int(serving), signal.SIGKILL)
for _ in range(500):
    try:
        after = counters(all_)
        break
    except OSError as error:
        print("read:", errno.errorcode[error.errno])
        time.sleep(0.01)
check("the counters outlive the daemon", all_before + 4, int(after["oom"]))
time.sleep(1.5)  # the process attaches again
happen()
_, status = os.waitpid(child, 0)
check("who waited through the old daemon", 0, status)
for _ in range(500):
    if int(counters(all_)["oom"]) >= all_before + 5:
        break
    time.sleep(0.01)
check("counted once", all_before + 5, int(counters(all_)["oom"]))
check("nobody came and nobody went", after["register"] + after["exit"],
      counters(all_)["register"] + counters(all_)["exit"])
