"""What is done to a world, each within some seconds, and mended before it returns.

A disk that stays full is mended once service is judged: the others have to go on without its server.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from jdbcstore.testing.polling import wait_until
from tests.support.campaign.world import Disk
from tests.support.histories.events import Fault, Problem
from tests.support.quorum.surroundings import ELECTION, MAIN, NETWORKS, Machine, Server
from tests.support.quorum.world import LEASE, World


class Faults:
    """The faults of one world, chosen by their kinds; ``done`` counts them."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self.done: Counter[str] = Counter()
        self._left_full: list[Machine] = []
        self.kinds: dict[str, Callable[[Machine], None]] = {
            "kill": self._kill,
            "pause": self._pause,
            "nats kill": lambda one: self._kill_servers([one.nats], 0.1, 2.0, 8.0),
            "nats pause": lambda one: self._pause_servers([one.nats], 1.0, 5.0, 14.0),
            "nats wipe": self._wipe_nats,
            "nats disk": self._fill_nats,
            "nats quorum": lambda one: self._pause_servers(
                [each.nats for each in self._two(one)], LEASE, 3 * LEASE, 10.0
            ),
            "machine": self._kill_machine,
            "cut in": lambda one: self._cut([one], NETWORKS, incoming=True, outgoing=False),
            "cut out": lambda one: self._cut([one], NETWORKS, incoming=False, outgoing=True),
            "cut": lambda one: self._cut([one], NETWORKS, incoming=True, outgoing=True),
        }
        if world.plan.syncs:
            # With 2.9, a leader whose disk is full may neither serve nor resign.
            self.kinds["nats disk stays full"] = self._leave_full
            self.kinds["nats quorum kill"] = lambda one: self._kill_servers(
                [each.nats for each in self._two(one)], 0.1, 3 * LEASE
            )
        if world.plan.by_zookeeper:
            self.kinds |= {
                "zookeeper kill": lambda one: self._kill_servers([one.zookeeper], 0.1, 3.0),
                "zookeeper pause": lambda one: self._pause_servers([one.zookeeper], LEASE, 3 * LEASE),
                "zookeeper cut": self._cut_zookeeper,
                "zookeeper quorum": self._stop_zookeepers,
                "all but zookeeper cut": lambda one: self._cut([one], [MAIN], incoming=True, outgoing=True),
            }
        if world.plan.replicated:
            self.kinds |= {
                "store wipe": self._wipe_store,
                "store disk": lambda one: self._fill(one.storage),
                "machine wipe": self._wipe_machine,
            }
        if world.plan.previous is not None:
            self.kinds["versions"] = self._turn_version

    def do(self, kind: str) -> str:
        """Do one, and mend it; return what it was."""
        world, chance = self._world, self._chance
        with suppress(AssertionError):  # a quorum must live
            wait_until(self._all_serve, 60.0)
        if kind in ("store wipe", "machine wipe"):  # nothing is lost while another has all
            world.await_level(kind)
        one = world.master() if chance.random() < 0.5 else chance.choice(world.machines)
        if kind.startswith("nats") and chance.random() < 0.6:
            one = next((machine for machine in world.machines if machine.leads()), one)
        begin = time.monotonic()
        self.kinds[kind](one)
        what = f"{kind} on {one} for {time.monotonic() - begin:.1f} s"
        world.recorder.add(Fault(begin, time.monotonic(), what))
        self.done[kind] += 1
        return what

    def _all_serve(self) -> bool:
        return all(machine.is_healthy() for machine in self._world.machines)

    def _pass(self, *seconds: float) -> None:
        time.sleep(self._chance.choice(seconds) * self._chance.uniform(0.7, 1.3))

    def _two(self, one: Machine) -> list[Machine]:
        """Return a machine and one of the others: without both there is no quorum."""
        return [one, self._chance.choice([each for each in self._world.machines if each is not one])]

    def _kill(self, one: Machine) -> None:
        assert one.broker is not None
        one.broker.kill()
        one.start_broker()

    def _turn_version(self, one: Machine) -> None:
        """Let a broker go on as the other version; half of the time, wait as the guide says."""
        assert one.broker is not None
        assert one.versions is not None
        if one.versions.turn(one.broker, self._chance) == "did not end":
            text = f"{one.number} did not end when asked to"
            self._world.recorder.add(Problem(time.monotonic(), text))
        one.start_broker()
        if self._world.plan.replicated and self._chance.random() < 0.5:
            self._world.await_level("the next one")

    def _pause(self, one: Machine) -> None:
        assert one.broker is not None
        one.broker.send(signal.SIGSTOP)
        self._pass(LEASE, 2 * LEASE, 5 * LEASE)
        one.broker.send(signal.SIGCONT)

    def _kill_servers(self, servers: Sequence[Server], *seconds: float) -> None:
        for server in servers:
            server.kill()
        self._pass(*seconds)
        for server in servers:
            server.start()

    def _pause_servers(self, servers: Sequence[Server], *seconds: float) -> None:
        for server in servers:
            server.send(signal.SIGSTOP)
        self._pass(*seconds)
        for server in servers:
            server.send(signal.SIGCONT)

    def _wipe_nats(self, one: Machine) -> None:
        one.nats.kill()
        shutil.rmtree(one.disk.folder / "nats", ignore_errors=True)
        self._pass(0.1, 5.0)
        one.nats.start()

    def _fill(self, disk: Disk) -> None:
        disk.fill()
        self._pass(1.0, 4.0)
        disk.free()

    def _fill_nats(self, one: Machine) -> None:
        self._fill(one.disk)
        self._go_on(one)

    def _leave_full(self, one: Machine) -> None:
        one.disk.fill()
        self._left_full.append(one)
        self._pass(1.0, 4.0)

    def mend(self) -> None:
        """Mend what was left broken until service was judged."""
        while self._left_full:
            one = self._left_full.pop()
            one.disk.free()
            self._go_on(one)

    def _go_on(self, one: Machine) -> None:
        try:
            wait_until(one.is_healthy, 3.0)
        except AssertionError:  # it goes on after a restart only
            one.nats.kill()
            one.nats.start()

    def _wipe_store(self, one: Machine) -> None:
        assert one.broker is not None
        one.broker.kill()
        one.wipe()
        self._pass(0.1, 3.0)
        one.start_broker()

    def _kill_machine(self, one: Machine, *, wipes: bool = False) -> None:
        assert one.broker is not None
        one.broker.kill()
        one.nats.kill()
        one.zookeeper.kill()
        if wipes:
            shutil.rmtree(one.disk.folder / "nats", ignore_errors=True)
            one.wipe()
        self._pass(0.1, 3.0)
        one.nats.start()
        one.zookeeper.start()
        one.start_broker()

    def _wipe_machine(self, one: Machine) -> None:
        self._kill_machine(one, wipes=True)

    def _cut(
        self, machines: Sequence[Machine], networks: Sequence[str], *, incoming: bool, outgoing: bool
    ) -> None:
        for one in machines:
            self._world.switch.cut(one.number, networks, incoming=incoming, outgoing=outgoing)
        self._pass(LEASE, 3 * LEASE, 12.0)
        for one in machines:
            self._world.switch.mend(one.number)

    def _cut_zookeeper(self, one: Machine) -> None:
        """Let a broker reach the stream, and no ZooKeeper but the one beside it, which is alone."""
        incoming, outgoing = self._chance.choice(((True, True), (True, False), (False, True)))
        self._cut([one], [ELECTION], incoming=incoming, outgoing=outgoing)

    def _stop_zookeepers(self, one: Machine) -> None:
        """Leave ZooKeeper without a quorum, while the stream has one."""
        two = self._two(one)
        if self._chance.random() < 0.5:
            self._cut(two, [ELECTION], incoming=True, outgoing=True)
        else:
            self._kill_servers([each.zookeeper for each in two], LEASE, 3 * LEASE)
