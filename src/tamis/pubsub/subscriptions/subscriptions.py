"""The subscriptions of a collection: durable, and open to any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tamis.errors import StorageError, SubscriptionError, UnknownSubscriptionError
from tamis.forks import hold_during_forks
from tamis.matcher.rule import RuleId
from tamis.pubsub.subscriptions.journal import Deleted, Journal, Known, Put, read_known
from tamis.pubsub.subscriptions.owners import Owners
from tamis.pubsub.subscriptions.subscription import (
    DEFAULT_WINDOW,
    Progress,
    Subscription,
    SubscriptionState,
    Webhook,
    make_subscription,
)

__all__ = ["Subscriptions"]


class Subscriptions:
    """The subscriptions of a collection.

    A change is on the disk when its call returns. Any number of threads may use it at once.

    Parameters
    ----------
    folder
        The folder with their files.
    read_only
        Whether to leave the folder as it is.
    sync
        Whether changes wait for the disk.
    latest
        Returns the number of the last event.
    check_writable
        Raises if nothing may be changed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        read_only: bool,
        sync: bool,
        latest: Callable[[], int],
        check_writable: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._latest = latest
        self._check_writable = check_writable
        self._lock = threading.RLock()
        hold_during_forks(self._lock, rank=2)
        self._known: Known = read_known(folder)
        self._owners: Owners | None = None
        self._journal = None if read_only else Journal(folder, sync=sync)
        self.on_change: Callable[[str], None] = lambda name: None
        """Called with the name of a subscription that was put, deleted or stands elsewhere."""

    # --- What users call ---

    def put(
        self,
        name: str,
        *,
        owner: str | None = None,
        priority: int = 0,
        rules: Iterable[RuleId] = (),
        tags: Iterable[str] = (),
        attributes: Mapping[str, Any] | None = None,
        webhook: Webhook | Mapping[str, Any] | str | None = None,
        window: int = DEFAULT_WINDOW,
    ) -> Subscription:
        """Create a subscription, or replace the one of that name, which stays where it stands.

        Parameters
        ----------
        name
            Its name: up to 128 letters, digits and ``. _ ~ @ -``.
        owner
            Whose it is; any text.
        priority
            When deliveries wait, those of subscriptions of higher priority go first.
        rules, tags
            It owns the rules with these ids, and those with one of these tags, also rules that
            are added later. Rules that were added with ``subscription=name`` are its own, too.
        attributes
            Its own attributes, to which the audience of an event refers: any JSON object.
        webhook
            Where its messages are sent: an address, or a :class:`Webhook`. If that has no secret,
            a new one is drawn, or that of the replaced webhook with the same address is kept.
        window
            How many messages may be sent that are not acknowledged yet.

        Returns
        -------
        Subscription
            As it is stored.

        Raises
        ------
        SubscriptionError, RuleError
            Something is not as it should be; nothing was changed.
        """
        self._check_writable()
        made = make_subscription(name, owner, priority, rules, tags, attributes, webhook, window)
        with self._lock:
            start = self._latest()
            before = self._known.get(name)
            state = SubscriptionState(start, start) if before is None else before[1]
            if before is not None:
                made = _keep_secret(before[0], made, webhook)
            assert self._journal is not None
            with self._reloaded_if_interrupted():
                self._journal.record_change(Put(made, state.start), lambda: self._known)
                self._known = {**self._known, name: (made, state)}
                self._owners = None
        self.on_change(name)
        return made

    def get(self, name: str) -> Subscription:
        """The subscription of that name.

        Raises
        ------
        UnknownSubscriptionError
            There is none.
        """
        return self._find(name)[0]

    def delete(self, name: str) -> None:
        """Delete a subscription, and where it stands.

        Raises
        ------
        UnknownSubscriptionError
            There is none.
        """
        self._check_writable()
        with self._lock:
            self._find(name)
            assert self._journal is not None
            with self._reloaded_if_interrupted():
                self._journal.record_change(Deleted(name), lambda: self._known)
                others = {known: entry for known, entry in self._known.items() if known != name}
                self._known = others
                self._owners = None
        self.on_change(name)

    def list(self, owner: str | None = None) -> list[Subscription]:
        """All subscriptions, or those of an owner, by name."""
        known = self._known
        found = (known[name][0] for name in sorted(known))
        return [one for one in found if owner is None or one.owner == owner]

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __repr__(self) -> str:
        return f"<tamis.Subscriptions: {len(self):,}>"

    # --- What the collection calls ---

    def _find(self, name: str) -> tuple[Subscription, SubscriptionState]:
        entry = self._known.get(name)
        if entry is None:
            raise UnknownSubscriptionError(f"there is no subscription {name!r:.200}")
        return entry

    def state(self, name: str) -> SubscriptionState:
        """Where a subscription stands.

        Raises
        ------
        UnknownSubscriptionError
            There is none.
        """
        return self._find(name)[1]

    @property
    def known(self) -> Known:
        """All subscriptions, and where they stand; a change makes another one."""
        return self._known

    @property
    def owners(self) -> Owners:
        """Finds the subscriptions that own rules; a change makes another one."""
        owners = self._owners
        if owners is None:
            with self._lock:
                owners = self._owners = Owners(entry[0] for entry in self._known.values())
        return owners

    def advance(self, progress: Progress) -> None:
        """Record that a subscription stands elsewhere, unless it is another one by now."""
        with self._lock:
            entry = self._known.get(progress.name)
            if entry is None or entry[1].start != progress.start:
                return
            assert self._journal is not None
            with self._reloaded_if_interrupted():
                self._journal.record_progress(progress, lambda: self._known)
                entry[1].apply(progress)
        self.on_change(progress.name)

    def acknowledge(self, name: str, sequence: int) -> int:
        """Acknowledge all messages up to `sequence`; returns up to where they are by now."""
        if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 0:
            raise SubscriptionError(f"a sequence number is a whole number, not {sequence!r:.200}")
        self._check_writable()
        with self._lock:
            state = self._find(name)[1]
            latest = self._latest()
            if sequence > latest:
                raise SubscriptionError(
                    f"{sequence} cannot be acknowledged: the last event is {latest}"
                )
            if sequence > state.acknowledged:
                self.advance(Progress(name, state.start, sequence))
            return state.acknowledged

    @contextmanager
    def _reloaded_if_interrupted(self) -> Iterator[None]:
        """Read all from the disk if an exception such as KeyboardInterrupt ends a change half-way.

        A `StorageError` says that nothing was recorded, so that nothing has changed here either.
        """
        try:
            yield
        except StorageError:
            raise
        except BaseException:
            self._known = read_known(self._folder)
            self._owners = None
            raise

    def refresh(self) -> None:
        """Read what a writer has changed since."""
        if self._journal is None:
            self._known = read_known(self._folder)
            self._owners = None

    def sync(self) -> None:
        """Return when all cursors are on the disk."""
        with self._lock:
            if self._journal is not None:
                self._journal.sync()

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()


def _keep_secret(before: Subscription, made: Subscription, given: Any) -> Subscription:
    """The new subscription with the secret of the old one, where only that was left out."""
    old, new = before.webhook, made.webhook
    secret = given.get("secret") if isinstance(given, Mapping) else getattr(given, "secret", "")
    if old is None or new is None or secret or old.url != new.url:
        return made
    return msgspec.structs.replace(made, webhook=old)
