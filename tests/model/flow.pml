/*
 * Flow control: a queue with a pause, limits, a rate and keys, from which processes claim.
 *
 * A claim locks the row of the queue, looks, chooses and claims (SQLite, MariaDB, MySQL); or it looks without a
 * lock, and claims only if nobody has written the row since (PostgreSQL), or else locks it as well. Messages are
 * filed under their keys by the claims. A lease may expire, and a renewal that was in time be committed later.
 *
 * Promised, and asserted where it could break:
 *   limit      no more claims are in force than the limit that is set
 *   key        nor those of a key than its limit
 *   order      where keys are in order, what is claimed is the first of its key that is there
 *   rate       each claim has a token
 *   pause      nobody claims from a queue that is paused
 *   share      a key that has a message waits for one message of each other key at most
 *   found      a claim that gets nothing looked while there was nothing to get
 */
#include "replay.pml"

#ifndef MESSAGES
#define MESSAGES 3
#define KEYS 2
#define SESSIONS 5
#endif
#define PROCESSES 2
#define MOST 2          /* messages of one claim; in a trace there may be more */

/* The bounds of a run: claims of each process, leases that expire, changes of what is set, tokens that arrive,
 * transactions that are rolled back; then what is set at first: the limit, the use of keys, and the burst. */

/* The mutations. */
#define COUNTS_FIRST 1          /* QueueFlow._room: after the lock */
#define CLAIMS_UNSEEN 2         /* FlowStatements.claim_seen: only if the row is as it was seen */
#define WRITES_NO_ROW 3         /* QueueFlow.draw: a claim writes the row where others look without a lock */
#define COUNTS_NO_LATE 4        /* FlowStatements._is_held_here: a lease counts for a while after its end */
#define COUNTS_NO_KEYS 5        /* _Choosing._serve: what is held of the key */
#define TAKES_FREE_ONES 6       /* FlowStatements._keys: the first of all, not of those that are free */
#define DRAWS_ONCE 7            /* QueueFlow.draw: a token for each message */
#define FORGETS_TURN 8          /* QueueFlow.draw: whose turn it is */
#define NOTES_EARLY 9           /* KeyedTaking.committed: what is filed, only after the commit */
#define SEES_NOTHING_NEW 10     /* Taking._take_seen: messages that are not filed yet */
#define LOCKS_NO_SETTING 11     /* QueueFlow._change: writes the row, also for those that have looked */
#define SKIPS_LOCKED 12         /* KeyedTaking.claim: the next of the key instead of one that is locked */

/* The events of a trace, in the order in which they took effect in the database. */
#define ADD 1           /* message, key */
#define GONE 2          /* message */
#define FREED 3         /* message: its claim is given back */
#define CLAIMED 4       /* session, message, how many more of the same claim follow */
#define LIMIT 5         /* the limit, or 0; whether it is paused */
#define KEYED 6         /* the use of keys; the limit of a key, or 0 */
#define LEASE 7         /* session, state: of its lease */

#define RUNNING 1       /* the states of a lease */
#define LATE 2          /* it has expired: others may claim its messages, but it counts */
#define OVER 3

#define IGNORED 0       /* the uses of keys: Keying */
#define SHARED 1
#define IN_ORDER 2

/* ---- The database. ---- */
typedef Message {
    byte key;
    bool stored;
    bool filed;         /* the row of JDBCSTORE_KEYED */
    byte session;       /* who has claimed it, 0 nobody */
    bool delayed;       /* it was given back, and nobody gets it before its time */
    bool locked         /* by a transaction that settles it */
}
Message message[MESSAGES];
byte lease[SESSIONS];   /* 0: there is none yet */
byte sessions;
byte most;              /* JDBCSTORE_FLOW: the limit; 0 for these is none */
byte keying;
byte most_of_key;
byte burst;
byte tokens;
byte last;              /* the key that was served last, + 1 */
bool paused;
byte holder;            /* the process that has locked the row, + 1 */
bool written[PROCESSES];        /* the row was written since that one has looked */
byte added;

/* ---- The processes. ---- */
byte current[PROCESSES];        /* Lease.number */
byte known[PROCESSES];          /* KeyedTaking.filed_to: how many of those that were added */
bool renewing[PROCESSES];       /* a renewal is on its way */

byte expiries, changes, arrivals, failures;

/* ---- Counted for the properties only. ---- */
byte drawable;          /* tokens, if each claim draws one */
byte waited[KEYS];      /* claims of others while this key had something to claim */
bool steady[PROCESSES]; /* there was something to get since the claim has begun */
bool lowered;           /* a limit was lowered below what is claimed, perhaps */

/* Not of the state, because they are used at once: the messages of a claim, and what is wrong with it. */
hidden byte chosen[MESSAGES];
hidden byte count;
hidden byte got;
hidden byte turn;
hidden byte beyond_limit, beyond_key, out_of_order, without_token, while_paused, out_of_turn;

/* In a c_expr, spin refuses a call whose name is not in parentheses. */
c_code {
    static int lease_of(int m) { return now.message[m].session ? now.lease[now.message[m].session] : 0; }

    static int is_free(int m) { return now.message[m].stored && !now.message[m].delayed && lease_of(m) != RUNNING; }

    static int is_counted(int m) {
        return now.message[m].stored
            && (lease_of(m) == RUNNING || (lease_of(m) == LATE && mutation != COUNTS_NO_LATE));
    }

    static int counted(int k) {         /* FlowStatements._count; of all keys if it is none */
        int m, n = 0;
        for (m = 0; m < MESSAGES; m++) n += is_counted(m) && (k < 0 || now.message[m].key == k);
        return n;
    }

    static int in_force(int k) {
        int m, n = 0;
        for (m = 0; m < MESSAGES; m++)
            n += now.message[m].stored && lease_of(m) == RUNNING && (k < 0 || now.message[m].key == k);
        return n;
    }

    /* QueueFlow._room, _Stored.room */
    static int room(int limit) {
        int left = now.most - counted(-1);
        if (now.paused) return 0;
        if (now.most && left < limit) limit = left > 0 ? left : 0;
        if (now.burst && now.tokens < limit) limit = now.tokens;
        return limit;
    }

    static int is_chosen(int m) {
        int i;
        for (i = 0; i < count; i++) if (chosen[i] == m) return 1;
        return 0;
    }

    /* FlowStatements._names: the first message of a key that can be claimed; filed are those below `filed_to`. */
    static int first_of(int k, int filed_to) {
        int m;
        for (m = 0; m < MESSAGES; m++) {
            if (!now.message[m].stored || (now.keying && now.message[m].key != k) || is_chosen(m)) continue;
            if (now.keying && !now.message[m].filed && m >= filed_to) continue;
            if (now.message[m].locked && mutation == SKIPS_LOCKED) continue;
            if (is_free(m)) return m;
            if (now.keying == IN_ORDER && mutation != TAKES_FREE_ONES) return -1;
        }
        return -1;
    }

    /* _Choosing._serve, for one message: -1 if the key has none, or may have no more. */
    static int of_key(int k, int filed_to) {
        int i, limit = now.keying == IN_ORDER ? 1 : now.most_of_key, has = counted(k);
        for (i = 0; i < count; i++) has += now.message[chosen[i]].key == k;
        if (now.keying && limit && has >= limit && mutation != COUNTS_NO_KEYS) return -1;
        return first_of(k, filed_to);
    }

    /* _Choosing.run: in rounds over the keys, one of each; without keys in the order of messages. */
    static void choose(int limit, int filed_to) {
        int k = now.keying ? now.last : 0, m, tried = 0, keys = now.keying ? KEYS : 1;
        count = 0; turn = now.last;
        while (count < limit && tried++ < keys) {
            m = of_key(k % keys, filed_to);
            k = k % keys + 1;
            if (m < 0) continue;
            chosen[count++] = m;
            turn = now.keying && mutation != FORGETS_TURN ? k : turn;
            tried = 0;
        }
    }

    /* Whether a claim could get something. */
    static int has_some() {
        int k, m;
        if (room(1) == 0) return 0;
        for (m = 0; m < MESSAGES; m++) if (now.message[m].locked) return 0;     /* it may come to that one */
        count = 0;
        for (k = 0; k < (now.keying ? KEYS : 1); k++) if (of_key(k, MESSAGES) >= 0) return 1;
        return 0;
    }

    static void look() {    /* after each change of what can be claimed */
        int p;
        for (p = 0; p < PROCESSES; p++) now.steady[p] = now.steady[p] && has_some();
    }

    static int is_first(int m) {
        int i;
        for (i = 0; i < m; i++) if (now.message[i].stored && now.message[i].key == now.message[m].key) return 0;
        return 1;
    }

    static void look_at_key(int k) {
        int limit = now.keying == IN_ORDER ? 1 : now.most_of_key;
        if (now.keying && limit && in_force(k) > limit) beyond_key = 1;
    }

    static void look_at_limits() {
        int k;
        beyond_limit = now.most && in_force(-1) > now.most;
        beyond_key = 0;
        for (k = 0; k < KEYS; k++) look_at_key(k);
    }

    /* What was chosen is claimed: KeyedTaking.claim, QueueFlow.draw. What is locked or gone is skipped. */
    static void claim(int session) {
        int i, k, m, next;
        got = 0; out_of_order = 0; without_token = 0; out_of_turn = 0;
        while_paused = now.paused && count > 0;
        for (i = 0; i < count; i++) {
            m = chosen[i];
            if (now.message[m].locked || !is_free(m)) continue;
            for (k = 0; k < KEYS && now.keying; k++) {
                next = of_key(k, 0);
                if (k == now.message[m].key || next < 0 || now.message[next].locked) now.waited[k] = 0;
                else if (++now.waited[k] > KEYS - 1) out_of_turn = 1;
            }
            if (now.keying == IN_ORDER && !is_first(m)) out_of_order = 1;
            if (now.burst && !now.drawable) without_token = 1; else now.drawable -= now.burst > 0;
            now.message[m].session = session;
            got++;
        }
        if (now.burst) now.tokens -= mutation == DRAWS_ONCE ? got > 0 : got;
        now.last = turn;
        beyond_limit = got && now.most && in_force(-1) > now.most;
        beyond_key = 0;
        for (i = 0; i < count && got; i++) look_at_key(now.message[chosen[i]].key);
        look();
    }

    /* Whether an event of a trace is none of a claim, and may happen; and what it does. */
    static int is_event(int event) {
        int kind = event / 64 / 64 / 64, m = event / 64 / 64 % 64;
        return event >= 0 && kind != CLAIMED && (kind != ADD || !now.message[m].stored)
            && ((kind != GONE && kind != FREED) || (now.message[m].stored && now.message[m].session));
    }

    static void take(int event) {
        int a = event / 64 / 64 % 64, b = event / 64 % 64;
        switch (event / 64 / 64 / 64) {
        case ADD: now.message[a].stored = 1; now.message[a].key = b; break;
        case GONE: now.message[a].stored = 0; now.message[a].session = 0; break;
        case FREED: now.message[a].session = 0; break;
        case LIMIT: now.most = a; now.paused = b; break;
        case KEYED: now.keying = a; now.most_of_key = b; break;
        case LEASE: now.lease[a] = b; break;
        }
    }

    /* The first message that a process may settle; -1 if there is none. */
    static int settles(int p) {
        int m, s = now.current[p];
        if (replayed || now.lease[s] != RUNNING) return -1;
        for (m = 0; m < MESSAGES; m++)
            if (now.message[m].stored && !now.message[m].locked && now.message[m].session == s) return m;
        return -1;
    }

    /* In a trace, the messages of the claim that follows, if there is room and each may be the next: of those
     * that are free there, some are delayed, or before a mark. */
    static int follow(int limit) {
        int event = history[now.at], i, m, more = event % 64;
        count = 0;
        if (event < 0 || event / 64 / 64 / 64 != CLAIMED || more + 1 > limit) return 0;
        for (i = 0; i <= more; i++) {
            m = history[now.at + i] / 64 % 64;
            if (!is_free(m) || is_chosen(m) || of_key(now.message[m].key, MESSAGES) < 0) return 0;
            if (now.keying == IN_ORDER && !is_first(m)) return 0;
            chosen[count++] = m;
        }
        return 1;
    }
};

#define row_is_written() written[0] = true; written[PROCESSES - 1] = true

inline assert_allowed() {
    assert(!beyond_limit);          /* limit */
    assert(!beyond_key);            /* key */
    assert(!out_of_order);          /* order */
    assert(!without_token);         /* rate */
    assert(!while_paused);          /* pause */
    assert(!out_of_turn)            /* share */
}

/* Taking.take_limited */
proctype Worker(byte p) {
    byte left, limit, room, m;
    left = bound[0];
end:
    do
    :: atomic { left > 0 && !replayed ->
            left--;
            if
            :: limit = 1
            :: limit = MOST
            fi;
            c_code { now.steady[PWorker->p] = has_some(); };
            if
            :: goto seen            /* PostgreSQL */
            :: goto locked
            fi
        }
    :: atomic { replayed -> goto end_trace }
    /* ClaimQueue.acknowledge, JoinedTransaction.acknowledge: locked until the commit, or a rollback */
    :: atomic { c_expr { (settles)(PWorker->p) > -1 } ->
            c_code { PWorker->m = settles(PWorker->p); };
            message[m].locked = true;
            c_code { look(); };
            goto settling
        }
    /* Lease._renew; Lease._keep begins another session when it is too late for that */
    :: atomic { expiries > 0 && lease[current[p]] == RUNNING && !renewing[p] -> renewing[p] = true }
    :: atomic { renewing[p] ->
            renewing[p] = false;
            if
            :: lease[current[p]] == LATE -> lease[current[p]] = RUNNING; c_code { look_at_limits(); look(); };
                assert(!beyond_limit || lowered);       /* limit */
                assert(!beyond_key || lowered)          /* key */
            :: true
            fi
        }
    :: atomic { lease[current[p]] == OVER || (lease[current[p]] == LATE && !renewing[p]) ->
            sessions++;
            current[p] = sessions;
            lease[sessions] = RUNNING
        }
    od;

seen:
    atomic {        /* QueueFlow.claim_next */
        written[p] = false;
        c_code { PWorker->room = room(PWorker->limit); };
        if
        :: mutation != SEES_NOTHING_NEW && keying && known[p] < added -> goto locked
        :: room == 0 -> goto done
        :: else
        fi
    };
    atomic {        /* KeyedTaking.choose, claim_seen or claim_chosen, which waits for the lock of the row */
        holder == 0 ->
        if
        :: !written[p] || mutation == CLAIMS_UNSEEN ->
            c_code { choose(PWorker->room, 0); claim(now.current[PWorker->p]); };
            assert_allowed();
            if
            :: c_expr { got > 0 } -> row_is_written(); goto over
            :: else -> goto done
            fi
        :: else                     /* others have claimed, or set something */
        fi
    };

locked:
    if
    :: atomic { mutation == COUNTS_FIRST -> c_code { PWorker->room = room(PWorker->limit); } };
        atomic { holder == 0 -> holder = p + 1 }
    :: atomic { holder == 0 && mutation != COUNTS_FIRST ->
            holder = p + 1;
            c_code { PWorker->room = room(PWorker->limit); }
        }
    fi;
    atomic {        /* KeyedTaking.file, choose, claim; QueueFlow.draw; and the commit */
        holder = 0;
        if
        :: true ->
            c_code {
                int k;
                choose(PWorker->room, MESSAGES);
                claim(now.current[PWorker->p]);
                for (k = 0; k < now.added && now.keying; k++) now.message[k].filed = 1;
            };
            assert_allowed();
            known[p] = (keying -> added : known[p]);
            if
            :: c_expr { got > 0 } && mutation != WRITES_NO_ROW -> row_is_written(); goto over
            :: c_expr { got > 0 } && mutation == WRITES_NO_ROW -> goto over
            :: else -> goto done
            fi
        :: failures > 0 ->          /* it is rolled back */
            failures--;
            known[p] = (mutation == NOTES_EARLY && keying -> added : known[p]);
            goto over
        fi
    };

done:
    atomic {
        assert(!steady[p]);         /* found */
        goto over
    };

settling:
    atomic {
        message[m].locked = false;
        if
        :: message[m].stored = false; message[m].session = 0; message[m].filed = false
        :: message[m].session = 0           /* released */
        :: message[m].session = 0; message[m].delayed = true
        :: true                             /* rolled back */
        fi;
        c_code { look(); }
    };

over:
    atomic { limit = 0; room = 0; m = 0; steady[p] = false; goto end };

end_trace:
    atomic { c_expr { (follow)((room)(MESSAGES)) } ->
        c_code { claim(history[now.at] / 64 / 64 % 64); };
        assert_allowed();
        m = 0;
        do
        :: m < got -> advance(); m++
        :: else -> break
        od;
        m = 0;
        goto end
    }
}

/* What is set: QueueFlow._change. */
proctype Settings() {
end:
    do
    :: atomic { changes > 0 && !replayed && (holder == 0 || mutation == LOCKS_NO_SETTING) ->
            changes--;
            if
            :: paused = !paused
            :: most = (most == 1 -> 2 : 1); lowered = true
            :: keying = IN_ORDER; lowered = true
            fi;
            if
            :: mutation != LOCKS_NO_SETTING -> row_is_written()
            :: else
            fi;
            c_code { look(); }
        }
    od
}

/* Producers, and the database's clock. */
proctype World() {
    byte s;
end:
    do
    :: atomic { added < MESSAGES && !replayed ->
            message[added].key = added % KEYS;
            message[added].stored = true;
            added++
        }
    :: atomic { expiries > 0 && !replayed ->
            s = 1;
            do
            :: s < sessions -> s++
            :: break
            od;
            if
            :: lease[s] == RUNNING -> expiries--; lease[s] = LATE; c_code { look(); }
            :: else
            fi;
            s = 0
        }
    :: atomic { !replayed && expiries != bound[1] ->
            s = 1;
            do
            :: s < sessions -> s++
            :: break
            od;
            if      /* a renewal that was in time is committed before that */
            :: lease[s] == LATE && !(current[0] == s && renewing[0])
                && !(current[PROCESSES - 1] == s && renewing[PROCESSES - 1]) -> lease[s] = OVER; c_code { look(); }
            :: else
            fi;
            s = 0
        }
    :: atomic { arrivals > 0 && burst > 0 && tokens < burst ->
            arrivals--;
            tokens++;
            drawable = drawable + (drawable < burst);
            c_code { look(); }
        }
    :: atomic { !replayed ->
            do
            :: s + 1 < MESSAGES -> s++
            :: break
            od;
            message[s].delayed = false;
            s = 0
        }
    :: atomic { replayed && c_expr { (is_event)(history[now.at]) } -> c_code { take(history[now.at]); }; advance() }
    od
}

init {
    atomic {
        load();
        expiries = bound[1]; changes = bound[2]; arrivals = bound[3]; failures = bound[4];
        most = bound[5];
        keying = (bound[6] == 3 -> SHARED : bound[6]); most_of_key = (bound[6] == 3);
        burst = bound[7]; tokens = burst; drawable = burst;
        if
        :: !replayed -> sessions = 2; current[0] = 1; current[1] = 2; lease[1] = RUNNING; lease[2] = RUNNING; run Worker(1)
        :: else
        fi;
        run Worker(0); run Settings(); run World()
    }
}
