/*
 * Mastership: brokers with a lease in the database, the fence around their writes, and a process that claims.
 *
 * Any process may pause between two steps. A lease expires after its holder has stopped to believe in it;
 * where the database's clock is set forward, before that. A failover may fall back to a standby that lags.
 *
 * With NODES=2 each broker is connected to a node of its own, which applies the commits of the other one later, and
 * shares no locks with it: a commit fails if the other node has committed a row that it writes, and this one had not
 * applied that when its transaction began.
 *
 * Promised, and asserted where it could break:
 *   fenced     no write takes effect after a later epoch has begun, or after another has taken the lock
 *   epoch      the writes of one broker only take effect in an epoch
 *   single     while the clock is not set, no broker begins while another serves and believes that it may
 *   apart      while the clock is not set, nobody claims messages while a broker serves
 */
#include "replay.pml"

#define BROKERS 2
#ifndef EPOCHS
#define EPOCHS 6
#endif
#define NOBODY 255
#ifndef NODES
#define NODES 1
#endif

/* The bounds of a run: terms and writes of each broker, steps of the clock, failovers, terms of claims. */

/* The mutations. */
#define GUARDS_NO_EPOCH 1       /* LockStatements.guard: of the epoch */
#define GUARDS_NO_HOLDER 2      /* LockStatements.guard: of the name in the lock's row */
#define LOCKS_NO_EPOCH 3        /* the shared lock of that guard, until the commit */
#define REUSES_EPOCH 4          /* Mastership._end_epoch: the number that follows the one that was read */
#define BELIEVES_TOO_LONG 5     /* LeaseDatabaseLocker._believed_until: before the lease ends */
#define LOOKS_FIRST 6           /* Lease._begin: the session first, then a look for a lock */
#define LOOKS_NEVER 7           /* Mastership._begin_epoch: OtherLocks.holder */
#define GUARDS_READ 8           /* Adapter.writes_to_hold: on a cluster, guards write the row of the epoch */

/* The events of a trace, in the order in which they took effect in the database. */
#define BEGIN 1         /* broker, epoch: it has begun */
#define WRITE 2         /* broker, epoch: messages were changed */

typedef Tables {
    byte epoch;         /* JDBCSTORE_STATE */
    byte owner;         /* ACTIVEMQ_LOCK.BROKER_NAME, which is unique to each acquisition; 0 nobody */
    bool running;       /* its lease has not expired */
    byte writer[EPOCHS] /* for the properties: whose writes took effect in each epoch, + 1 */
}
Tables now_;
Tables standby;         /* what a failover falls back to */

typedef Broker {
    byte name;          /* LeaseDatabaseLocker._ours */
    bool believes;      /* Fence.check */
    bool serves;
    byte epoch;
    bool writes         /* a transaction whose guard has passed is open */
}
Broker broker[BROKERS];
byte names;

#if NODES == 1
#define seen(b) now_
#define has_lock_row(b) true
#define has_epoch_row(b) true
#define certified(b) true
#define wrote_lock_row(b) skip
#define wrote_epoch_row(b) skip
#define begins(b) skip
#define is_locked (broker[0].writes || broker[1].writes)
#else
typedef Node {
    byte epoch; byte owner; bool running;       /* as in the tables, when it last applied what is committed */
    bool lacks_lock_row;        /* the other node has committed a change of the row that it has not applied */
    bool lacks_epoch_row;
    bool conflicts              /* that row was committed since the open transaction of its broker began */
}
Node node[BROKERS];
#define seen(b) node[b]
#define has_lock_row(b) (!node[b].lacks_lock_row)
#define has_epoch_row(b) (!node[b].lacks_epoch_row)
#define certified(b) (!node[b].conflicts || mutation == GUARDS_READ)
#define is_locked false

inline apply(b) {
    node[b].epoch = now_.epoch; node[b].owner = now_.owner; node[b].running = now_.running;
    node[b].lacks_lock_row = false; node[b].lacks_epoch_row = false
}
inline wrote_lock_row(b) {
    apply(b); node[1 - b].lacks_lock_row = true
}
inline wrote_epoch_row(b) {
    apply(b); node[1 - b].lacks_epoch_row = true; node[1 - b].conflicts = true
}
inline begins(b) {
    node[b].conflicts = node[b].lacks_epoch_row
}
#endif
bool claiming;          /* a session of claims, whose lease is running */
bool claims;            /* that process serves */
byte steps, failovers;
bool was_set;           /* the clock, or the tables by a failover */

#define is_guarded(b) ((seen(b).epoch == broker[b].epoch || mutation == GUARDS_NO_EPOCH) \
    && (seen(b).owner == broker[b].name || mutation == GUARDS_NO_HOLDER))

inline resign(b) {      /* Fence.lose; a lease is released, or left to expire */
    broker[b].serves = false; broker[b].believes = false;
    if
    :: seen(b).owner == broker[b].name && has_lock_row(b) ->
        now_.owner = 0; now_.running = false; wrote_lock_row(b)
    :: true
    fi;
    broker[b].name = 0; broker[b].epoch = 0
}

proctype Master(byte b) {
    byte terms, left, last;
    terms = bound[0];
end:
    do
    :: atomic { terms > 0 && !seen(b).running && has_lock_row(b) ->     /* LeaseDatabaseLocker._obtain */
            terms = terms - !replayed;
            names = names + !replayed;
            /* in a trace, whose terms have no bound: another name than that of its last lease */
            broker[b].name = (replayed -> 1 + b + BROKERS * (now_.owner == 1 + b) : names);
            now_.owner = broker[b].name; now_.running = true;
            wrote_lock_row(b);
            broker[b].believes = true
        };
        if
        :: atomic { claiming && mutation != LOOKS_NEVER -> resign(b); goto again }      /* OtherLocks.holder */
        :: atomic { !claiming || mutation == LOOKS_NEVER -> last = seen(b).epoch }      /* last_epoch */
        fi;
        if
        :: atomic { !(broker[b].believes && seen(b).owner == broker[b].name) -> resign(b); goto again }
        :: atomic { broker[b].believes && seen(b).owner == broker[b].name && has_lock_row(b) ->
                now_.running = true; wrote_lock_row(b) }        /* keep_alive */
        fi;
        if
        :: atomic { seen(b).epoch != last && mutation != REUSES_EPOCH -> resign(b); goto again }
        :: atomic { (seen(b).epoch == last || mutation == REUSES_EPOCH) && has_epoch_row(b)     /* begin_epoch */
                && (!is_locked || mutation == LOCKS_NO_EPOCH)
                && allowed(BEGIN, b, last + 1, 0) ->
                now_.epoch = last + 1;
                wrote_epoch_row(b);
                broker[b].epoch = last + 1;
                broker[b].serves = true;
                left = bound[1];
                assert(was_set || !broker[b].believes || now_.owner != broker[b].name
                    || !(broker[1 - b].serves && broker[1 - b].believes));      /* single */
                assert(was_set || !broker[b].believes || !claims);              /* apart */
                advance()
            }
        :: atomic { replayed -> resign(b); goto again }         /* the process ends, or cannot go on */
        fi;
        do
        :: atomic { left > 0 && broker[b].believes && is_guarded(b) ->  /* Connection._guards */
                left = left - !replayed; broker[b].writes = true; begins(b)
            };
            if
            :: atomic { broker[b].writes && certified(b)                                    /* the commit */
                    && allowed(WRITE, b, broker[b].epoch, 0) ->
                    assert(now_.epoch == broker[b].epoch);                      /* fenced */
                    assert(now_.writer[now_.epoch] == 0 || now_.writer[now_.epoch] == b + 1);   /* epoch */
                    now_.writer[now_.epoch] = b + 1;
                    broker[b].writes = false;
                    if
                    :: mutation == GUARDS_READ
                    :: mutation != GUARDS_READ -> wrote_epoch_row(b)
                    fi;
                    advance()
                }
            :: atomic { broker[b].writes -> broker[b].writes = false }  /* rolled back: limit_silence */
            :: !broker[b].writes        /* the server has failed over */
            fi
        :: atomic { broker[b].believes && seen(b).owner == broker[b].name && has_lock_row(b) -> /* Keeper._keep */
                now_.running = true; wrote_lock_row(b); goto served }
        :: atomic { !broker[b].believes || !is_guarded(b) || left == 0 -> resign(b); break }
served: skip
        od;
again:  atomic { last = 0; left = 0 }
    od
}

/* A process that claims messages: stores/claims/lease.py */
active proctype Claims() {
    byte terms;
    terms = 1;
end:
    do
    :: atomic { terms > 0 && bound[4] > 0 ->
            terms--;
            if
            :: mutation == LOOKS_FIRST && now_.running -> goto again
            :: mutation == LOOKS_FIRST && !now_.running
            :: mutation != LOOKS_FIRST -> claiming = true       /* add_session */
            fi
        };
        if
        :: atomic { now_.running && mutation != LOOKS_FIRST -> claiming = false; goto again }   /* NotMaster */
        :: atomic { !now_.running || mutation == LOOKS_FIRST ->
                claiming = true; claims = true;
                assert(was_set || !((broker[0].serves && broker[0].believes)
                    || (broker[1].serves && broker[1].believes)))               /* apart */
            }
        fi;
        atomic { claims = false; claiming = false };
again:  skip
    od
}

inline expire() {
    now_.running = false;
#if NODES > 1
    node[0].running = false; node[1].running = false
#endif
}

/* Time, and what happens to the database. */
active proctype World() {
    byte b;
end:
    do
    :: d_step { now_.running && (mutation == BELIEVES_TOO_LONG
            || !((broker[0].name == now_.owner && broker[0].believes)
                || (broker[1].name == now_.owner && broker[1].believes))) -> expire() }
    :: d_step { broker[0].believes -> broker[0].believes = false }      /* it was not renewed in time */
    :: d_step { broker[1].believes -> broker[1].believes = false }
    :: d_step { steps > 0 && now_.running -> steps--; was_set = true; expire() }
#if NODES > 1
    :: atomic { node[0].lacks_lock_row || node[0].lacks_epoch_row -> apply(0) }
    :: atomic { node[1].lacks_lock_row || node[1].lacks_epoch_row -> apply(1) }
#endif
    :: d_step { failovers > 0 ->                        /* replication goes on until some moment */
            standby.epoch = now_.epoch; standby.owner = now_.owner; standby.running = now_.running;
            for (b : 0 .. EPOCHS - 1) { standby.writer[b] = now_.writer[b] }
            b = 0
        }
    :: d_step { failovers > 0 ->
            failovers--; was_set = true;
            now_.epoch = standby.epoch; now_.owner = standby.owner; now_.running = standby.running;
            for (b : 0 .. EPOCHS - 1) { now_.writer[b] = standby.writer[b]; standby.writer[b] = 0 }
            b = 0; standby.epoch = 0; standby.owner = 0; standby.running = false;
            broker[0].writes = false; broker[1].writes = false
        }
    od
}

init {
    atomic {
        load();
        steps = bound[2]; failovers = bound[3];
        run Master(0);
        run Master(1)
    }
}
