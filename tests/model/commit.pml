/*
 * The group commit: stores without a locker on the same tables, a reader by pages, and commits in doubt.
 *
 * Each step names the function of the product that takes it. The database takes steps of its own: what it was
 * sent may be executed long after the connection was lost, until the server has ended that session.
 *
 * Promised, and asserted where it could break:
 *   durable    a unit is answered "ok" only when its row is committed
 *   once       a message has no more rows than it has units that were not answered "failed"
 *   pages      no row is committed at or before the mark of a reader, which would skip it
 *   removal    an acknowledgement removes the row that was read, and never a later one with the same ID
 *   answered   every unit is answered (no other end of a run is valid)
 */
#include "replay.pml"

/* The bounds of a run: writers, units of work (each with one message), connections that are lost, stores that
 * are closed, acknowledgements. */
#ifndef WRITERS
#define WRITERS 2
#define UNITS 3
#define MESSAGES 2      /* one of them is added again after an answer other than "ok" */
#define FAULTS 2
#endif
#define BLOCK 2         /* of stores/jdbc/sequence.py */
#define IDS (BLOCK * (UNITS + FAULTS + WRITERS) + 1)
#define SESSIONS (WRITERS + FAULTS)
#define MOST 2          /* units in a batch */
#define NONE 255

/* The mutations: each leaves out what a property depends on. */
#define ENDS_NO_SESSION 1       /* Committer._end_lost */
#define FINDS_NOTHING 2         /* _Attempts.find_committed */
#define ANSWERS_EARLY 3         /* the answer only after the commit */
#define KEEPS_IDS 4             /* Committer.write: other IDs after OutcomeUnknown */
#define GUARDS_NO_BLOCK 5       /* SequenceAllocator.block */
#define LOCKS_NO_BLOCK 6        /* the shared lock of that guard */
#define GIVES_BACK_ALWAYS 7     /* SequenceAllocator.give_back: only if the block is still the last */
#define FAILS_IN_DOUBT 8        /* _Attempts._reconnect_later: OutcomeUnknown if it is in doubt */
#define REMOVES_ELSEWHERE 10    /* a limit: a store must not remove what another one has in doubt */
#define FORGETS_UNITS 9         /* Commits._complete, of a batch that was abandoned */
#define FOLLOWS_ANYTHING 11     /* Committer.send_ahead: the guard that the batch before it is committed */
#define BELIEVES_WHAT_FOLLOWS 12        /* Committer.confirm, and the answer to what was sent ahead */

/* The events of a trace. */
#define SUBMIT 1        /* unit, message, writer */
#define ANSWER 2        /* unit, result */
#define READ 3          /* message: the next row behind the mark */
#define READ_NONE 4     /* no row is behind the mark */
#define REMOVE 5        /* message, writer: the first row of it that was read */
#define REMOVED 6       /* message, result */
#define CLOSE 7         /* writer: closed, and opened again */
#define KILL 8          /* writer: its process is killed, and another begins */

#define OK 1            /* the results */
#define FAILED 2
#define UNKNOWN 3
#define OPEN 0

mtype { FREE, IDLE, SENT, LOCKED, DONE, SEQUENCES_TAKEN, DUPLICATE, REFUSED, CONFLICT }     /* of a session */

/* ---- The database. ---- */
byte row[IDS];          /* ACTIVEMQ_MSGS: the unit + 1 whose message has this ID, 0 if there is none */
byte behind;            /* how many of them are behind the reader's mark */
byte reserved;          /* JDBCSTORE_STATE: the highest ID that was reserved */
byte sharing;           /* sessions with the shared lock of that row */

typedef Session {
    mtype state = FREE;
    bool lost;          /* its client has gone */
    byte owner = NONE;  /* the process that opened it; NONE when that was killed */
    byte first;         /* the ID of the first row that was sent */
    byte unit[MOST];    /* the units that were sent: + 1, or 0 */
    byte removes;       /* the ID of the row to remove, or 0 */
    byte block;         /* the guard: the block that was reserved last */
    byte after;         /* the guard: the unit + 1 whose row is before the first, or 0 */
    mtype next;         /* the state of a batch of one unit that was sent behind it; 0: there is none */
    byte next_unit      /* that unit + 1; its ID is behind those of the batch before it */
}
Session session[SESSIONS];

/* ---- The stores. ---- */
typedef Store {
    byte last;          /* SequenceAllocator.last */
    byte reserved;      /* SequenceAllocator._reserved */
    byte connection = NONE;     /* its session */
    byte lost           /* Committer._lost: sessions to end */
}
Store store[WRITERS];
chan queue[WRITERS] = [UNITS + 1] of { byte };   /* WriteQueue: units, and IDs to remove + REMOVAL */
#define REMOVAL 100

typedef Unit {
    byte message;
    byte writer;
    byte result
}
Unit unit[UNITS];
byte submitted, answered;
byte writers, units;    /* that there are in this run */
byte faults, closes, removals;  /* that are left */

/* ---- The reader, which may be a cursor, a durable subscription or another process. ---- */
byte mark;              /* the last ID that was read */
byte seen[IDS];         /* the unit + 1 that was read there */
byte unsettled;         /* how many of these are not acknowledged */
byte removing;          /* the ID that is being acknowledged, or 0 */

/* ---- Counted for the properties only. ---- */
byte stored[MESSAGES];  /* commits of a message */
byte sure[MESSAGES];    /* units answered "ok" */
byte possible[MESSAGES];        /* units without an answer, or answered "ok" or "unknown" */

/* Commits._complete */
inline answer(u, outcome) {
    allowed(ANSWER, u, outcome, 0);
    d_step {
        unit[u].result = outcome;
        answered++;
        if
        :: outcome == OK ->
            sure[unit[u].message]++;
            assert(stored[unit[u].message] >= sure[unit[u].message])        /* durable */
        :: outcome == FAILED ->
            possible[unit[u].message]--;
            assert(stored[unit[u].message] <= possible[unit[u].message])    /* once */
        :: else
        fi;
        advance()
    }
}

inline answer_removal(outcome) {
    allowed(REMOVED, unit[seen[removing] - 1].message, outcome, 0);
    d_step {
        if
        :: outcome == OK -> seen[removing] = 0; unsettled--     /* else it is acknowledged again */
        :: else
        fi;
        removing = 0;
        advance()
    }
}

inline rest(s) {
    session[s].state = IDLE;
    session[s].first = 0; session[s].unit[0] = 0; session[s].unit[1] = 0;
    session[s].removes = 0; session[s].block = 0;
    session[s].after = 0; session[s].next = 0; session[s].next_unit = 0
}

#define batch_size(s) (session[s].unit[1] != 0 -> 2 : 1)
#define next_id(s) (session[s].first + batch_size(s))
#define is_answered(s) (session[s].state == DONE || session[s].state == SEQUENCES_TAKEN \
    || session[s].state == DUPLICATE || session[s].state == REFUSED || session[s].state == CONFLICT)

/* Of a batch that is answered, and the one behind it, which is now the first. */
inline shift(s) {
    session[s].after = session[s].unit[batch_size(s) - 1];
    session[s].first = session[s].first + batch_size(s);
    session[s].unit[0] = session[s].next_unit; session[s].unit[1] = 0;
    session[s].removes = 0;
    session[s].state = session[s].next;
    session[s].next = 0; session[s].next_unit = 0
}
inline store_row() {
    assert(id > mark);          /* pages */
    row[id] = u + 1;
    behind++;
    stored[unit[u].message]++;
    assert(stored[unit[u].message] <= possible[unit[u].message]);       /* once */
    id = 0; u = 0
}

inline clear(s) {
    if
    :: session[s].owner != NONE && session[s].lost -> store[session[s].owner].lost--
    :: else
    fi;
    if
    :: session[s].state == LOCKED -> sharing--
    :: else
    fi;
    rest(s);
    session[s].state = FREE; session[s].lost = false; session[s].owner = NONE
}

/* One session of the server: executes a request, also of a client that has gone. */
proctype Server(byte s) {
    byte i, id, u;
end:
    do
    :: d_step { session[s].state == SENT && faults > 0 && !session[s].lost ->     /* one that is tried again */
            faults--;
            session[s].state = CONFLICT
        }
    :: d_step { session[s].state == SENT ->
            if
            /* Connection._guards: the block is still the last, read with a shared lock until the commit */
            :: session[s].unit[0] && session[s].block != reserved && mutation != GUARDS_NO_BLOCK ->
                session[s].state = SEQUENCES_TAKEN
            :: session[s].after && row[session[s].first - 1] != session[s].after && mutation != FOLLOWS_ANYTHING ->
                session[s].state = REFUSED
            :: else -> session[s].state = LOCKED; sharing++
            fi
        }
    /* The batch behind it, whether or not its client still is there; in one step. */
    :: d_step { session[s].next == SENT && is_answered(s) ->
            if
            :: session[s].block != reserved && mutation != GUARDS_NO_BLOCK -> session[s].next = SEQUENCES_TAKEN
            :: row[next_id(s) - 1] != session[s].unit[batch_size(s) - 1] && mutation != FOLLOWS_ANYTHING ->
                session[s].next = REFUSED
            :: row[next_id(s)] -> session[s].next = DUPLICATE
            :: else ->
                session[s].next = DONE;
                id = next_id(s); u = session[s].next_unit - 1;
                store_row()
            fi
        }
    :: d_step { session[s].state == LOCKED ->
            session[s].state = DONE;
            sharing--;
            for (i : 0 .. MOST - 1) {
                if
                :: session[s].unit[i] && row[session[s].first + i] ->
                    session[s].state = DUPLICATE        /* the primary key */
                :: else
                fi
            }
            for (i : 0 .. MOST - 1) {
                if
                :: session[s].state == DONE && session[s].unit[i] ->
                    id = session[s].first + i; u = session[s].unit[i] - 1;
                    store_row()
                :: else
                fi
            }
            if
            :: session[s].state == DONE && session[s].removes ->
                assert(!row[session[s].removes]
                    || row[session[s].removes] == seen[session[s].removes]);    /* removal */
                row[session[s].removes] = 0     /* which is never behind the mark */
            :: else
            fi;
            i = 0
        }
    /* It notices that the client has gone, and rolls back what is not committed. */
    :: d_step { session[s].lost -> clear(s) }
    od
}

/* Committer.disconnect */
inline disconnect() {
    faults--;
    tried = true;
    session[store[w].connection].lost = true;
    store[w].connection = NONE;
    store[w].lost++
}

/* Writer: takes a batch, and attempts it until it is committed or known not to be. */
proctype Writer(byte w) {
    byte batch[MOST];
    byte count, removes, i, s, u;
    bool doubtful, taken, tried, flag;
    byte outcome;
    byte ahead, ahead_first;    /* the unit + 1 that was sent behind the batch, and its ID */
    bool ahead_lost;            /* that went with the connection */

idle:
end:
    if
    :: atomic { nempty(queue[w]) ->     /* WriteQueue.take_batch: the first, and maybe what is behind it */
            do
            :: nempty(queue[w]) && count < MOST ->      /* no more than one removal is under way */
                queue[w]?u;
                if
                :: u >= REMOVAL -> removes = u - REMOVAL
                :: else -> batch[count] = u; count++
                fi
            :: count > 0 || removes != 0 -> break
            od;
            u = batch[0];
            if
            :: mutation == ANSWERS_EARLY && count > 0 -> answer(u, OK)
            :: else
            fi;
            u = 0;
            goto attempt
        }
    :: atomic {     /* Committer.close, and a store that is opened */
            empty(queue[w]) && (store[w].reserved != 0 || replayed) && sharing == 0 && (closes > 0 || replayed) && allowed(CLOSE, w, 0, 0) ->
            d_step {
                if
                :: store[w].reserved != 0 && store[w].connection != NONE && store[w].lost == 0
                    && (reserved == store[w].reserved || mutation == GIVES_BACK_ALWAYS) ->
                    reserved = store[w].last    /* SequenceAllocator.give_back */
                :: else
                fi;
                store[w].last = 0; store[w].reserved = 0;
                closes = closes - !replayed;
                advance()
            }
        };
        goto idle
    fi;

attempt:
    atomic {
        if
        :: store[w].connection == NONE ->               /* Committer._connect */
            do
            :: session[s].state != FREE -> s++
            :: else -> break
            od;
            session[s].state = IDLE; session[s].owner = w;
            store[w].connection = s; s = 0
        :: store[w].connection != NONE
        :: tried -> goto over       /* the database cannot be reached until Backoff.is_over */
        fi;
        if
        :: store[w].lost > 0 && mutation != ENDS_NO_SESSION ->          /* Connection.end_lost */
            d_step {
                for (s : 0 .. SESSIONS - 1) {
                    if
                    :: session[s].lost && session[s].owner == w -> clear(s)
                    :: else
                    fi
                }
                s = 0
            }
        :: store[w].lost == 0 || mutation == ENDS_NO_SESSION
        :: store[w].lost > 0 && tried -> goto over      /* the server still has it, and does not end it */
        fi;
        if
        :: doubtful && count > 0 ->                     /* _Attempts._was_committed */
            d_step {
                for (i : 0 .. MOST - 1) {
                    if
                    :: i < count && row[store[w].last + 1 + i] && mutation != FINDS_NOTHING ->
                        flag = flag || unit[row[store[w].last + 1 + i] - 1].message == unit[batch[i]].message
                    :: else
                    fi
                }
                i = 0
            };
            if
            :: flag -> flag = false; goto accept
            :: else -> doubtful = false     /* the session has ended: what is not there will not come */
            fi
        :: else
        fi;
        if
        :: taken -> store[w].last = 0; store[w].reserved = 0; taken = false     /* SequenceAllocator.forget */
        :: else
        fi
    };
    if
    :: count > 0 && store[w].last + count > store[w].reserved ->    /* SequenceAllocator._reserve_block */
        if
        :: reserved + BLOCK >= IDS -> goto over         /* sequences_used_up */
        :: atomic { reserved + BLOCK < IDS && (sharing == 0 || mutation == LOCKS_NO_BLOCK) ->
                d_step {
                    s = reserved;
                    for (i : 1 .. IDS - 1) {
                        if
                        :: row[i] && i > s -> s = i
                        :: else
                        fi
                    }
                    if
                    :: store[w].reserved != 0 && store[w].reserved == s
                    :: else -> store[w].last = s
                    fi;
                    reserved = store[w].last + BLOCK;
                    store[w].reserved = reserved;
                    s = 0; i = 0
                }
            }
        :: atomic { faults > 0 -> disconnect(); goto attempt }
        fi
    :: else
    fi;
    d_step {                                            /* _Attempts.write_once, Connection.write */
        s = store[w].connection;
        session[s].state = SENT;
        session[s].first = store[w].last + 1;
        for (i : 0 .. MOST - 1) {
            if
            :: i < count -> session[s].unit[i] = batch[i] + 1
            :: else -> session[s].unit[i] = 0
            fi
        }
        session[s].removes = removes;
        session[s].block = (count > 0 -> store[w].reserved : 0);
        i = 0
    };

sent:
    if
    :: atomic { count > 0 && nempty(queue[w]) && !ahead && !doubtful && !tried
            && session[s].first + count <= store[w].reserved ->         /* Writer._take_next, Committer.send_ahead */
            queue[w]?<u>;
            if
            :: u < REMOVAL ->
                queue[w]?u;
                d_step {
                    ahead = u + 1; ahead_first = session[s].first + count;
                    session[s].next = SENT; session[s].next_unit = ahead
                }
            :: else
            fi;
            u = 0
        }
    :: true
    fi;
    if
    :: atomic { session[s].state == DONE ->
            d_step {
                if
                :: ahead -> shift(s)
                :: else -> rest(s); s = 0
                fi
            };
            goto accept
        }
    :: atomic { is_answered(s) && session[s].state != DONE && session[s].next != SENT ->
            if
            :: mutation == BELIEVES_WHAT_FOLLOWS && ahead -> u = ahead - 1; ahead = 0; answer(u, OK); u = 0
            :: else
            fi;
            taken = session[s].state == SEQUENCES_TAKEN || session[s].state == DUPLICATE;
            tried = tried || taken;
            rest(s); s = 0; ahead_first = 0; goto attempt }
    :: atomic { faults > 0 ->                           /* _Attempts._recover_from */
            disconnect(); doubtful = true; ahead_lost = ahead != 0; s = 0; goto attempt }
    :: atomic { faults > 0 && allowed(KILL, w, 0, 0) ->
            disconnect();
            ahead_lost = ahead != 0;
            d_step {
                for (s : 0 .. SESSIONS - 1) {
                    if
                    :: session[s].owner == w -> session[s].owner = NONE     /* nobody ends it */
                    :: else
                    fi
                }
                store[w].lost = 0; s = 0;
                store[w].last = 0; store[w].reserved = 0;
                advance()
            };
            outcome = UNKNOWN;
            goto complete
        }
    fi;

accept:
    atomic {
        store[w].last = store[w].last + count;          /* _Attempts._accept */
        outcome = OK;
        goto complete
    };

over:
    atomic {
        if
        :: doubtful && mutation != FAILS_IN_DOUBT ->    /* OutcomeUnknown: it may be there already */
            outcome = UNKNOWN;
            if
            :: mutation != KEEPS_IDS -> store[w].last = 0; store[w].reserved = 0
            :: else
            fi
        :: else -> outcome = FAILED
        fi
    };

complete:
    atomic {
        do
        :: i < count ->
            if
            :: outcome != OK && mutation == FORGETS_UNITS
            :: mutation == ANSWERS_EARLY && i == 0
            :: else -> u = batch[i]; answer(u, outcome); u = 0
            fi;
            i++
        :: removes -> answer_removal(outcome); removes = 0
        :: i == count && removes == 0 -> break
        od;
        if
        :: ahead && outcome == UNKNOWN -> u = ahead - 1; ahead = 0; answer(u, UNKNOWN); u = 0   /* Committer.confirm */
        :: else
        fi;
        batch[0] = 0; batch[1] = 0;
        count = 0; removes = 0; i = 0;
        /* Committer.confirm: where its IDs are the next ones, what became of it is to be found out. */
        flag = ahead && outcome == OK && ahead_first == store[w].last + 1;
        doubtful = flag && ahead_lost; taken = false; tried = false;
        outcome = 0;
        if
        :: ahead ->
            batch[0] = ahead - 1; count = 1; ahead = 0; ahead_first = 0;
            if
            :: flag && !ahead_lost -> flag = false; goto sent
            :: else -> flag = false; ahead_lost = false; s = 0; goto attempt
            fi
        :: else -> flag = false; ahead_lost = false; ahead_first = 0; goto idle
        fi
    }
}

/* Producers. A message whose unit was not answered "ok" may be added again, as the same message. */
active proctype Producers() {
    byte m, w;

    do
    :: atomic { submitted < units ->
            do
            :: m + 1 < MESSAGES -> m++
            :: break
            od;
            do
            :: w + 1 < writers -> w++
            :: break
            od;
            if
            :: allowed(SUBMIT, submitted, m, w) && (replayed || possible[m] == 0
                    || (unit[0].message == m && unit[0].result > OK)) ->
                d_step {
                    unit[submitted].message = m;
                    unit[submitted].writer = w;
                    possible[m]++;
                    advance()
                };
                queue[w]!submitted;
                submitted++
            :: else
            fi;
            m = 0; w = 0
        }
    :: submitted > 0 -> break           /* that was all */
    od;
    answered == submitted               /* answered */
}

/* A reader by ID: PageReader of a queue, or a durable subscription's; and its acknowledgements. */
active proctype Reader() {
    byte id, w;

end:
    do
    :: atomic { behind > 0 ->
            id = mark + 1;
            do
            :: !row[id] -> id++
            :: else -> break
            od;
            if
            :: allowed(READ, unit[row[id] - 1].message, 0, 0) ->
                d_step { mark = id; seen[id] = row[id]; unsettled++; behind--; advance() }
            :: else
            fi;
            id = 0
        }
    :: atomic { behind == 0 && replayed && allowed(READ_NONE, 0, 0, 0) -> advance() }
    :: atomic { !removing && unsettled > 0 && (removals > 0 || replayed) ->   /* the first; in a trace, the first of that message */
            id = 1;
            do
            :: id <= mark && !(seen[id] && allowed(REMOVE, unit[seen[id] - 1].message, 0, 0)) -> id++
            :: else -> break
            od;
            if
            :: id <= mark ->
                w = unit[seen[id] - 1].writer;
                if
                :: mutation == REMOVES_ELSEWHERE -> w = writers - 1 - w
                :: else
                fi;
                removing = id;
                removals = removals - !replayed;
                advance();
                queue[w]!(REMOVAL + id)
            :: else
            fi;
            id = 0; w = 0
        }
    od
}

init {
    byte i;
    atomic {
        load();
        writers = bound[0]; units = bound[1]; faults = bound[2]; closes = bound[3]; removals = bound[4];
        for (i : 0 .. SESSIONS - 1) { run Server(i) }
        for (i : 0 .. writers - 1) { run Writer(i) }
        i = 0
    }
}
