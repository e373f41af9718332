"""manager.py - as much of a service manager as gmlaked needs: starts it, keeps the descriptors it sends, starts it again
when it was killed and hands them over, and ends when it ends by itself. For service.sh.

    manager.py SOCKET LOG COMMAND...

What it hears from the service is printed, a line each, and "started PID" each time.
"""
import array
import os
import select
import signal
import socket
import sys

kept = []  # [name, descriptor]


def forget(name):
    for entry in [e for e in kept if e[0] == name]:
        os.close(entry[1])
        kept.remove(entry)


def forget_dead():
    """A descriptor that reports an error or a hang-up is dropped, as systemd does."""
    for entry in list(kept):
        poll = select.poll()
        poll.register(entry[1], 0)
        if any(what & (select.POLLERR | select.POLLHUP) for _, what in poll.poll(0)):
            os.close(entry[1])
            kept.remove(entry)


def hear(notices):
    data, ancillary, _, _ = notices.recvmsg(4096, socket.CMSG_SPACE(4 * 64))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    lines = dict(line.split("=", 1) for line in data.decode().split("\n") if "=" in line)
    if lines.get("FDSTORE") == "1":
        kept.extend([lines["FDNAME"], fd] for fd in fds)
    elif lines.get("FDSTOREREMOVE") == "1":
        forget(lines["FDNAME"])
    else:
        print(data.decode(), flush=True)


def start(path, log, command):
    forget_dead()
    kept.sort(key=lambda entry: -entry[1])  # the order is nobody's promise
    pid = os.fork()
    if pid > 0:
        print("started", pid, flush=True)
        return pid
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    high = [os.dup(fd) for _, fd in kept]
    base = max(high + [3 + len(high)]) + 1
    high = [os.dup2(fd, base + i) for i, fd in enumerate(high)]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i, inheritable=True)
    os.environ["NOTIFY_SOCKET"] = path
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(kept))
    os.environ["LISTEN_FDNAMES"] = ":".join(name for name, _ in kept)
    os.environ["WATCHDOG_USEC"] = "400000"
    os.environ["WATCHDOG_PID"] = str(os.getpid())
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stream, 2, inheritable=True)
    about = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{about.st_dev}:{about.st_ino}"
    os.execvp(command[0], command)


def main():
    path, log, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(path)
    os.chmod(path, 0o777)
    notices.settimeout(0.02)
    child = start(path, log, command)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        try:
            while True:
                hear(notices)
        except TimeoutError:
            pass
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended and not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        if ended:
            try:
                notices.setblocking(False)
                while True:
                    hear(notices)
            except BlockingIOError:
                pass
            notices.settimeout(0.02)
            print("kept", len(kept), flush=True)
            child = start(path, log, command)


sys.exit(main())
