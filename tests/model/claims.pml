/*
 * Claims: processes that share the queues of a database, each under a lease, without a master.
 *
 * A statement of PostgreSQL reads a snapshot, and locks and writes rows afterwards: two steps here. What was
 * sent over a connection that is lost may be executed later, until the server has ended the session. A lease
 * may expire at any moment, and run again: the database's clock may be set forward and back.
 *
 * Promised, and asserted where it could break:
 *   kept       a message is removed only when a process that had claimed it acknowledged it
 *   leased     a claim is settled only under its lease, and while nobody else has claimed the message since;
 *              in the application's transaction: while nobody else has, until it is committed
 *   alone      nobody is given a message that another has claimed and holds under a running lease
 *   marked     who is given a message is told of every earlier delivery that was not taken back
 *   free       no message stays claimed by a living process that does not know of it
 */
#include "replay.pml"

#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
/* The bounds of a run: operations of each process, connections that are lost, leases that expire, times that
 * the clock is set back, processes that are closed or killed, transactions of the application's. */
#ifndef SESSIONS
#define SESSIONS 6
#endif

/* The mutations. */
#define TAKES_TWICE 1           /* ClaimStatements._claim: taken is as it was looked at */
#define SETTLES_ANY 2           /* ClaimStatements.find_mine: of this session */
#define SETTLES_LATE 3          /* ClaimStatements.find_mine: whose lease is running */
#define LOCKS_NOTHING 4         /* ClaimStatements.find_mine: locked until the end of the transaction */
#define RETURNS_ANY 5           /* ClaimStatements.return_claims: of this session */
#define HOLDS_BY_ID 6           /* ClaimQueue.held: what was claimed in an earlier session is not held */
#define ENDS_NO_SESSION 7       /* Claims._return_unknown: the server ends the connections that were lost */
#define COUNTS_NO_DEATH 8       /* ClaimStatements._free: died */
#define LOSES_QUIETLY 10        /* ClaimQueue._lose: what was lost may be this session's again */
#define DROPS_UNCOUNTED 11      /* ClaimQueue.dropped: it counts as a redelivery */
#define FORGETS_ANSWER 9       /* Claims.taking: an answer was lost */
#define JOINS_ANY 12            /* JoinedTransaction._hold: of this session */
#define JOINS_UNLOCKED 13       /* JoinedTransaction._hold: locked until the application's transaction ends */

/* The events of a trace. */
#define ADD 1           /* message */
#define CLAIMED 2       /* process, message, redeliveries */
#define SETTLE 3        /* process, message, how */
#define SETTLED 4       /* process, message, result */
#define EXPIRE 5        /* process: the lease of its session */
#define CLOSE 6         /* process: its claims are closed, and others opened */
#define KILL 7          /* process: killed, and another begins */
#define STORED 8        /* message */
#define GONE 9          /* message */
#define NOTHING 10      /* process: no message is free */

#define ACKNOWLEDGE 1   /* how a claim is settled */
#define RELEASE 2
#define REJECT 3
#define CLAIM 4         /* the fourth thing that may be executed late */
#define JOINED_ACKNOWLEDGE 5    /* settled in the application's transaction */
#define JOINED_RELEASE 6
#define is_joined(how) ((how) > CLAIM)

#define OK 1            /* the results */
#define LOST 2          /* ClaimLost */
#define UNKNOWN 3       /* OutcomeUnknown */
#define UNDONE 4        /* the application has rolled back */

/* ---- The database. ---- */
typedef Message {
    bool stored;        /* the row of ACTIVEMQ_MSGS */
    byte session;       /* the row of JDBCSTORE_CLAIMS: who has claimed it, 0 nobody */
    byte taken;
    byte failed;
    bool locked         /* by a transaction that settles */
}
Message message[MESSAGES];
bool running[SESSIONS];         /* JDBCSTORE_CLAIM_SESSIONS: the lease has not expired */
bool present[SESSIONS];         /* the row is there */
bool expired[SESSIONS];         /* the lease has expired once, or was ended */
byte sessions;                  /* that were begun */

/* A request of a connection that was lost, which the server has not executed and not ended. */
typedef Late {
    byte kind;          /* 0: there is none */
    byte message;
    byte session;
    byte taken;
    byte failed;
    bool orphan         /* its process was killed: nobody has it ended */
}
Late late[PROCESSES];

/* ---- The processes. ---- */
typedef Process {
    byte session;       /* Lease.number */
    byte held[MESSAGES];        /* ClaimQueue.held: the session in which it was claimed, or 0 */
    byte given[MESSAGES];       /* what the application holds: the session of its Claim */
    byte asked[MESSAGES];       /* how it has settled that, with an unknown outcome */
    bool dropped[MESSAGES];     /* ClaimQueue.dropped: what it gave back to nobody, because it was lost */
    bool taking;        /* Claims._taking */
    bool returning;     /* ClaimDatabase._changed is held */
    bool answer_lost    /* Claims._answer_lost */
}
Process process[PROCESSES];

byte faults;
byte expiries;
byte revivals;
byte ends;
byte joins;
byte added;

/* ---- Counted for the properties only. ---- */
byte unsettled[MESSAGES];       /* deliveries that were not taken back */
bool processed[MESSAGES];       /* an acknowledgement was asked for */

#define is_free(m) (message[m].stored && (message[m].session == 0 || !running[message[m].session]))

#define given(p, m) (process[p].given[(m) % MESSAGES] != 0)
#define can_claim(m) (is_free((m) % MESSAGES) && !message[(m) % MESSAGES].locked)
#if MESSAGES < 3
#define has_given(p) (given(p, 0) || given(p, 1))
#define any_free (can_claim(0) || can_claim(1))
#else
#define has_given(p) (given(p, 0) || given(p, 1) || given(p, 2) || given(p, 3) || given(p, 4) || given(p, 5) \
    || given(p, 6) || given(p, 7))
#define any_free (can_claim(0) || can_claim(1) || can_claim(2) || can_claim(3) || can_claim(4) || can_claim(5) \
    || can_claim(6) || can_claim(7))
#endif

/* Lease._begin */
inline begin_session(p) {
    sessions++;
    assert(sessions < SESSIONS);
    process[p].session = sessions;
    present[sessions] = true;
    running[sessions] = true
}

/* A claim of session s is settled: ClaimQueue._remove, ClaimStatements.return_claims. */
inline settle(how, m, s) {
    assert(message[m].session == s);            /* leased */
    if
    :: how == ACKNOWLEDGE || how == JOINED_ACKNOWLEDGE ->
        assert(processed[m]);                   /* kept */
        message[m].stored = false; message[m].taken = 0; message[m].failed = 0; unsettled[m] = 0
    :: how == RELEASE || how == JOINED_RELEASE -> unsettled[m] = unsettled[m] - (unsettled[m] > 0)   /* it may be settled twice */
    :: how == REJECT -> message[m].failed++
    fi;
    message[m].session = 0
}

/* ClaimStatements.find_mine: the claim is of this session, whose lease is running. */
#define is_mine(m, s) (message[m].stored && (message[m].session == s || mutation == SETTLES_ANY) \
    && (running[s] || mutation == SETTLES_LATE))

inline forget_late(p) {
    late[p].kind = 0; late[p].message = 0; late[p].session = 0; late[p].taken = 0; late[p].failed = 0;
    late[p].orphan = false
}

/* The server ends the session: what it has not executed has no effect. */
inline end_late(p, m) {
    if
    :: late[p].kind != ACKNOWLEDGE && late[p].kind != CLAIM -> m = late[p].message; message[m].locked = false; m = 0
    :: else
    fi;
    forget_late(p)
}

/* The server executes what came late. */
proctype Server(byte p) {
    byte m, how, by, t;
end:
    do
    :: d_step { late[p].kind != 0 ->
            m = late[p].message; how = late[p].kind; by = late[p].session; t = late[p].taken;
            if
            :: how == CLAIM && message[m].stored && !message[m].locked && message[m].taken == t ->
                message[m].session = by;
                message[m].taken = t + 1;
                message[m].failed = late[p].failed
            :: how == ACKNOWLEDGE && !message[m].locked && is_mine(m, by) ->
                assert(running[by]);                    /* leased */
                settle(how, m, by)
            :: how == RELEASE || how == REJECT || is_joined(how) ->
                settle(how, m, by);
                message[m].locked = false
            :: else
            fi;
            forget_late(p); m = 0; how = 0; by = 0; t = 0
        }
    :: d_step { late[p].kind != 0 -> end_late(p, m) }      /* it never arrived, or was rolled back */
    od
}

/* The thread of the lease, which also returns claims that nobody knows of. */
proctype Keeper(byte p) {
    byte m, s;
    bool unknown[MESSAGES];
    bool dropped[MESSAGES];
end:
    do
    :: atomic { !running[process[p].session] -> begin_session(p) }      /* Lease._keep, else it renews */
    :: atomic { process[p].answer_lost && !process[p].returning         /* Claims.tidy */
                && !process[p].taking ->
            process[p].returning = true;
            if
            :: mutation != ENDS_NO_SESSION && late[p].kind != 0 && !late[p].orphan -> end_late(p, m)
            :: else
            fi;
            s = process[p].session;
            process[p].answer_lost = false
        };
        atomic {        /* Claims._return_unknown: find_all */
            m = 0;
            do
            :: m < MESSAGES ->
                unknown[m] = message[m].stored && message[m].session == s
                    && !(process[p].held[m] == s || (mutation == HOLDS_BY_ID && process[p].held[m] != 0));
                dropped[m] = process[p].dropped[m];
                process[p].dropped[m] = false;
                m++
            :: else -> m = 0; break
            od
        };
        atomic {        /* ClaimStatements.return_claims */
            do
            :: m < MESSAGES && (!unknown[m] || !message[m].locked) ->
                if
                :: unknown[m] && message[m].stored && (message[m].session == s || mutation == RETURNS_ANY) ->
                    assert(message[m].session == s);    /* leased */
                    message[m].session = 0;
                    /* What an application had and lost counts as a redelivery. */
                    message[m].failed = message[m].failed
                        + (dropped[m] && mutation != DROPS_UNCOUNTED)
                :: else
                fi;
                dropped[m] = false;
                unknown[m] = false;
                m++
            :: m == MESSAGES -> m = 0; s = 0; break
            od;
            process[p].returning = false
        }
    od
}

/* The process knows nothing any more. */
inline forget_all(p) {
    m = 0;
    do
    :: m < MESSAGES ->
        process[p].given[m] = 0; process[p].asked[m] = 0; process[p].held[m] = 0; process[p].dropped[m] = false;
        m++
    :: else -> m = 0; break
    od;
    process[p].answer_lost = false
}

/* The application: claims, and settles. */
proctype Worker(byte p) {
    byte m, s, t, f, how, left, result;
    left = bound[0];
end:
    do
    /* ClaimQueue.claim: the snapshot of ClaimStatements._free */
    :: atomic { any_free && left > 0 && !process[p].returning && !process[p].answer_lost ->
            do
            :: !can_claim(m) -> m++
            :: else -> break
            od;
            process[p].taking = true;
            left = left - !replayed;
            s = process[p].session;             /* Lease.check */
            t = message[m].taken;
            f = message[m].failed + (message[m].session != 0 && mutation != COUNTS_NO_DEATH);
            goto claiming
        }
    :: atomic { replayed && !any_free && allowed(NOTHING, p, 0, 0) -> advance() }
    /* ClaimQueue.acknowledge, release, reject: of the first that it was given; in a trace, of any */
    :: atomic { has_given(p) ->
            do
            :: m + 1 < MESSAGES && (!given(p, m) || (replayed && !allowed(SETTLE, p, m, ACKNOWLEDGE)
                    && !allowed(SETTLE, p, m, RELEASE) && !allowed(SETTLE, p, m, REJECT)
                    && !allowed(SETTLE, p, m, JOINED_ACKNOWLEDGE) && !allowed(SETTLE, p, m, JOINED_RELEASE))) -> m++
            :: else -> break
            od;
            if
            :: !given(p, m) -> m = 0; goto end
            :: given(p, m) && process[p].asked[m] == 0 && allowed(SETTLE, p, m, ACKNOWLEDGE) -> how = ACKNOWLEDGE
            :: given(p, m) && process[p].asked[m] == 0 && allowed(SETTLE, p, m, RELEASE) -> how = RELEASE
            :: given(p, m) && process[p].asked[m] == 0 && allowed(SETTLE, p, m, REJECT) -> how = REJECT
            :: given(p, m) && process[p].asked[m] == 0 && (joins > 0 || replayed)
                    && allowed(SETTLE, p, m, JOINED_ACKNOWLEDGE) -> how = JOINED_ACKNOWLEDGE
            :: given(p, m) && process[p].asked[m] == 0 && (joins > 0 || replayed)
                    && allowed(SETTLE, p, m, JOINED_RELEASE) -> how = JOINED_RELEASE
            :: given(p, m) && process[p].asked[m] != 0 && allowed(SETTLE, p, m, process[p].asked[m]) ->
                how = process[p].asked[m]
            :: else -> m = 0; goto end
            fi;
            s = process[p].given[m];
            processed[m] = processed[m] || how == ACKNOWLEDGE || how == JOINED_ACKNOWLEDGE;
            joins = joins - (is_joined(how) && !replayed);
            advance();
            if
            :: is_joined(how) -> goto joining
            :: else -> goto settling
            fi
        }
    /* Claims.close, and others that are opened */
    :: atomic { (ends > 0 || replayed) && !process[p].returning && allowed(CLOSE, p, 0, 0) ->
            ends = ends - !replayed;
            advance();
            s = process[p].session;
            do
            :: m < MESSAGES ->
                if
                :: message[m].session == s && !message[m].locked ->     /* Claims.tidy, return_all */
                    message[m].session = 0;
                    message[m].failed = message[m].failed
                        + (process[p].dropped[m] && mutation != DROPS_UNCOUNTED);
                    unsettled[m] = unsettled[m] - (process[p].given[m] == s)
                :: else
                fi;
                m++
            :: else -> m = 0; break
            od;
            running[s] = false; expired[s] = true; present[s] = false;
            late[p].orphan = late[p].kind != 0;
            s = 0;
            forget_all(p);
            begin_session(p)
        }
    :: atomic { (ends > 0 || replayed) && !process[p].returning && allowed(KILL, p, 0, 0) ->
            ends = ends - !replayed;
            advance();
            late[p].orphan = late[p].kind != 0;
            forget_all(p);
            begin_session(p)
        }
    od;

claiming:
    if
    :: atomic { message[m].stored && !message[m].locked
                && (message[m].taken == t || mutation == TAKES_TWICE) ->
            message[m].session = s;             /* ClaimStatements._claim */
            message[m].taken = t + 1;
            message[m].failed = f;
            if
            :: true
            :: faults > 0 -> faults--; goto unanswered
            fi
        };
        atomic { allowed(CLAIMED, p, m, f) ->
            assert(message[m].session == s || expired[s]);      /* alone */
            assert(f >= unsettled[m] || message[m].session != s);                         /* marked */
            unsettled[m]++;
            process[p].held[m] = s;
            process[p].given[m] = s;
            process[p].asked[m] = 0;
            process[p].taking = false;
            advance();
            goto done
        }
    :: atomic { !(message[m].stored && !message[m].locked && message[m].taken == t) ->
            process[p].taking = false;          /* another was faster */
            goto done
        }
    :: atomic { faults > 0 && late[p].kind == 0 ->
            faults--;
            late[p].kind = CLAIM; late[p].message = m; late[p].session = s;
            late[p].taken = t; late[p].failed = f;
            goto unanswered
        }
    fi;

unanswered:
    atomic {
        process[p].answer_lost = (mutation != FORGETS_ANSWER);
        process[p].taking = false;
        goto done
    };

settling:
    if
    :: atomic { !message[m].locked && is_mine(m, s) ->
            assert(running[s]);                 /* leased */
            if
            :: how == ACKNOWLEDGE ->            /* one statement */
                settle(how, m, s);
                goto settled
            :: else -> message[m].locked = mutation != LOCKS_NOTHING
            fi
        };
        if
        :: atomic { true -> settle(how, m, s); message[m].locked = false; goto settled }
        :: atomic { faults > 0 && late[p].kind == 0 && mutation != LOCKS_NOTHING ->
                faults--;                       /* the commit may come late */
                late[p].kind = how; late[p].message = m; late[p].session = s;
                result = UNKNOWN;
                goto answer
            }
        fi
    :: atomic { !message[m].locked && !is_mine(m, s) ->
            assert(expired[s] || process[p].asked[m] != 0);     /* alone */
            result = LOST;
            goto answer
        }
    :: atomic { how == ACKNOWLEDGE && faults > 0 && late[p].kind == 0 ->
            faults--;
            late[p].kind = how; late[p].message = m; late[p].session = s;
            result = UNKNOWN;
            goto answer
        }
    fi;

joining:            /* JoinedTransaction._hold, which asks nobody whether the lease is running */
    if
    :: atomic { !message[m].locked && message[m].stored && process[p].session == s
                && (message[m].session == s || mutation == JOINS_ANY) ->
            message[m].locked = mutation != JOINS_UNLOCKED
        };
        if
        :: atomic { true -> settle(how, m, s); message[m].locked = false; goto settled }
        :: atomic { true -> message[m].locked = false; result = UNDONE; goto answer }
        :: atomic { faults > 0 && !replayed && late[p].kind == 0 && mutation != JOINS_UNLOCKED ->
                faults--;                       /* of a connection that only the application knows */
                late[p].kind = how; late[p].message = m; late[p].session = s; late[p].orphan = true;
                result = UNKNOWN;
                goto answer
            }
        fi
    :: atomic { !message[m].locked && !(message[m].stored && message[m].session == s) ->
            assert(expired[s] || process[p].asked[m] != 0);     /* alone */
            result = LOST;
            goto answer
        }
    :: atomic { process[p].session != s -> result = LOST; goto answer }
    fi;

settled:
    atomic {
        if
        :: result = OK
        :: faults > 0 -> faults--; result = UNKNOWN
        fi
    };

answer:
    atomic { allowed(SETTLED, p, m, result) ->
        if
        :: result == UNKNOWN -> process[p].asked[m] = how - (is_joined(how) -> CLAIM : 0)
        :: result == UNDONE
        :: else ->
            process[p].given[m] = 0; process[p].asked[m] = 0;
            process[p].held[m] = (mutation == HOLDS_BY_ID && result == LOST -> s : 0);
            process[p].dropped[m] = process[p].dropped[m] || result == LOST;
            /* its lease may be running again */
            process[p].answer_lost = process[p].answer_lost || (result == LOST && mutation != LOSES_QUIETLY)
        fi;
        advance();
        goto done
    };

done:
    atomic { m = 0; s = 0; t = 0; f = 0; how = 0; result = 0; goto end }
}

/* The clock of the database, and what is seen from outside. */
active proctype World() {
    byte s, m;
end:
    do
    :: atomic { expiries > 0 && !replayed ->
            expiries--;
            s = 1;
            do
            :: s < sessions -> s++
            :: break
            od;
            expired[s] = true; running[s] = false; s = 0
        }
    :: atomic { revivals > 0 && !replayed ->
            revivals--;
            s = 1;
            do
            :: s < sessions -> s++
            :: break
            od;
            running[s] = running[s] || present[s]; s = 0
        }
    :: atomic { replayed ->
            do
            :: s + 1 < PROCESSES -> s++
            :: break
            od;
            do
            :: m + 1 < MESSAGES -> m++
            :: break
            od;
            if
            :: allowed(EXPIRE, s, 0, 0) ->
                expired[process[s].session] = true; running[process[s].session] = false; advance()
            :: allowed(ADD, m, 0, 0) && m == added -> message[m].stored = true; added++; advance()
            :: allowed(STORED, m, 0, 0) && message[m].stored -> advance()
            :: allowed(GONE, m, 0, 0) && !message[m].stored -> advance()
            :: else
            fi;
            s = 0; m = 0
        }
    :: atomic { replayed ->             /* the lease of a process that was killed expires some time */
            s = 1;
            do
            :: s < sessions -> s++
            :: break
            od;
            if
            :: process[0].session != s && process[PROCESSES - 1].session != s && process[PROCESSES / 2].session != s ->
                expired[s] = true; running[s] = false
            :: else
            fi;
            s = 0
        }
    od
}

/* When nothing happens any more, what a living process has claimed it knows. */
active proctype Monitor() {
    byte p, m;
    atomic { timeout ->
        do
        :: p < PROCESSES && m < MESSAGES ->
            assert(!message[m].stored || message[m].session != process[p].session
                || process[p].given[m] == message[m].session);          /* free */
            m++
        :: p < PROCESSES && m == MESSAGES -> p++; m = 0
        :: p == PROCESSES -> break
        od
    }
}

init {
    byte i;
    atomic {
        load();
        faults = bound[1]; expiries = bound[2]; revivals = bound[3]; ends = bound[4]; joins = bound[5];
        do
        :: i < MESSAGES -> message[i].stored = !replayed; i++
        :: else -> i = 0; break
        od;
        do
        :: i < PROCESSES -> begin_session(i); run Server(i); run Keeper(i); run Worker(i); i++
        :: else -> i = 0; break
        od
    }
}
