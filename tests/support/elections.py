"""Leaders of a stream that are elected while they are asked, and have not applied yet what is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import ClusterInfo, StreamInfo
from nats.js.errors import NotFoundError


class Elections:
    """Leaders that one server seems to be, one after the other: the next is elected after a purge.

    Each has not applied yet what comes after ``last``, until it has agreed to a purge, too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int, count: int = 1) -> None:
        self._last = last
        self._left = count
        self._is_behind = True
        js = JetStreamContext
        purge, info, get = js.purge_stream, js.stream_info, js.get_msg

        async def purge_stream(js: JetStreamContext, *arguments: Any, **more: Any) -> Any:
            answer = await purge(js, *arguments, **more)
            self._is_behind = self._left > 0
            self._left -= self._is_behind
            return answer

        async def stream_info(js: JetStreamContext, *arguments: Any, **more: Any) -> StreamInfo:
            found = await info(js, *arguments, **more)
            state = found.state
            if self._is_behind:
                state = replace(state, last_seq=min(state.last_seq, self._last))
            return replace(found, cluster=ClusterInfo(leader="n0"), state=state)

        async def get_msg(js: JetStreamContext, *arguments: Any, **more: Any) -> Any:
            found = await get(js, *arguments, **more)
            if self._is_behind and (found.seq or 0) > self._last:
                raise NotFoundError(code=404, err_code=10037, description="no message found")
            return found

        for one in (purge_stream, stream_info, get_msg):
            monkeypatch.setattr(js, one.__name__, one)
