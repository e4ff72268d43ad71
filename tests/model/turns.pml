/*
 * Who writes next: callers that commit for each other, the writer's thread, and the main thread, which a signal
 * may interrupt. A unit is only a number here; what a commit may do is in commit.pml.
 *
 * Each step names the function of the product that takes it. What is done under Writer._lock is one step.
 *
 * Promised, and asserted where it could break:
 *   one        one at a time writes
 *   order      units are written in the order in which they are queued
 *   callbacks  a future is completed by the thread, never by a caller that may hold locks of its own
 *   kept       nobody else takes the unit of a caller that is to lead: it would wait for the turn of whoever has
 *              written it, which may run callbacks that need what the caller holds
 *   once       a caller is told once to lead
 *   answered   every unit is answered (no other end of a run is valid)
 *   flushed    all that is queued is written when the thread ends, behind close()
 */
#include "replay.pml"

/* The bounds of a run: callers, calls of each, calls of the main thread, futures, signals. */
#define UNITS 8

#define NOBODY 0        /* the threads; callers are 1, 2, ... */
#define MAIN 10
#define THREAD 11

/* The mutations. */
#define HANDS_NOTHING_OVER 1    /* Writer._end_lead, of a caller that has written its own unit */
#define ENDS_AS_LEADER 2        /* the same, of one that has written for others */
#define LOOKS_FIRST 3           /* Writer._enqueue: looks whether somebody leads under the lock */
#define LEADS_IN_MAIN 4         /* Writer._idle */
#define RELIES_ON_MAIN 5        /* the same, in Writer._enqueue */
#define LEADS_AT_ONCE 6         /* Writer._lead: with the turn */
#define TAKES_FUTURES 7         /* WriteQueue.take_batch: of callers that wait only */
#define STEPS_IN 8              /* Writer._wait_for_work: not while a caller leads */
#define CLOSES_AT_ONCE 9        /* Writer._run: closes with the turn */

/* The events of a trace: there are none yet. */

typedef Unit {
    byte owner;         /* NOBODY: it is a future */
    bool taken;
    bool done;
    bool leads;         /* Follower.leads */
    bool signal         /* its lock is released */
}
Unit unit[UNITS];
byte units;             /* that there are */
byte written;           /* that were written */
chan queue = [UNITS] of { byte };

byte turn;              /* Writer.writer_lock: who has it */
byte leader;            /* Writer._leader */
bool called = false, asleep = false, closed = false;
bit wakes;              /* Writer._wakes */
byte signals;

#define may_lead(who) ((who) != NOBODY && ((who) != MAIN || mutation == LEADS_IN_MAIN))
#define relies_on(who) ((who) != NOBODY && ((who) != MAIN || mutation == LEADS_IN_MAIN || mutation == RELIES_ON_MAIN))

inline wake() { called = true; wakes = 1; asleep = false }      /* more of them: it looks again, and sleeps */

inline call_thread() {  /* Writer._enqueue */
    called = true;
    if
    :: asleep -> wake()
    :: else
    fi
}

inline begin(who) {
    u = units;
    units++;
    unit[u].owner = who
}

/* Writer._lead_next */
inline lead_next() {
    if
    :: leader != NOBODY || called || closed || len(queue) == 0 -> led = false
    :: else ->
        queue?<u>;
        if
        :: may_lead(unit[u].owner) ->
            leader = unit[u].owner;
            assert(!unit[u].leads);             /* once */
            unit[u].leads = true;
            unit[u].signal = true;
            led = true
        :: else -> led = false
        fi;
        u = mine
    fi
}

/* Writer._end_lead */
inline end_lead(me) {
    atomic {
        if
        :: leader == me ->
            leader = NOBODY;
            if
            :: (len(queue) > 0 || closed) && may_lead(me) ->
                lead_next();
                if
                :: led -> led = false
                :: else -> wake()
                fi
            :: else
            fi
        :: else
        fi
    }
}

/* WriteQueue.take_batch, Committer.write, Commits._complete */
inline write_batch(me) {
    d_step {
        first = written;
        do
        :: len(queue) > 0 ->
            queue?<u>;
            if
            :: me != THREAD && unit[u].owner == NOBODY && mutation != TAKES_FUTURES -> break
            :: else
            fi;
            queue?u;
            assert(u == written);       /* order */
            written++;
            unit[u].taken = true
        :: len(queue) == 0 -> break
        od;
        if
        :: me == THREAD -> called = false       /* or not: after many, the thread goes on */
        :: else
        fi;
        last = written;
        u = mine;
        writing++
    };
    if
    :: me == THREAD -> called = true
    :: true
    fi;
    do
    :: d_step { me == THREAD && len(queue) > 0 ->       /* Writer._take_next */
            queue?u;
            assert(u == written);       /* order */
            written++;
            unit[u].taken = true;
            last = written;
            u = mine
        }
    :: break
    od;
    atomic {
        assert(writing == 1);           /* one */
        writing--
    };
    do
    :: d_step { first < last ->
            assert(unit[first].owner || is_thread);     /* callbacks */
            unit[first].done = true;
            if
            :: !unit[first].leads -> unit[first].signal = true
            :: else
            fi;
            first++
        }
    :: atomic { first == last -> first = 0; last = 0; break }
    od
}
byte writing;

proctype Caller(byte me; byte left) {
    byte u, mine, first, last;
    bool led, relies, is_thread = false;

next:
    do
    :: left == 0 -> goto ended
    :: atomic { left > 0 && leader == NOBODY && len(queue) == 0 -> left-- };   /* Writer.execute */
        atomic { turn == NOBODY -> turn = me };
        if
        :: atomic { leader == NOBODY && len(queue) == 0 && !closed ->          /* Writer._is_next */
                begin(me); mine = u;
                leader = me;
                unit[u].taken = true;
                assert(u == written);           /* order */
                written++;
                writing++
            }
        :: atomic { else -> turn = NOBODY; goto enqueue }
        fi;
        d_step {                                /* Writer._write_alone */
            assert(writing == 1);               /* one */
            writing--;
            unit[mine].done = true
        };
        if
        :: mutation != HANDS_NOTHING_OVER || me == MAIN -> end_lead(me)
        :: mutation == HANDS_NOTHING_OVER && me != MAIN -> leader = NOBODY
        :: atomic { me == MAIN && signals > 0 -> signals-- }
        fi;
        atomic { turn = NOBODY; mine = 0; u = 0 }
    :: atomic { left > 0 && !(leader == NOBODY && len(queue) == 0) -> left-- };
enqueue:
        if
        :: mutation == LOOKS_FIRST -> relies = relies_on(leader)
        :: else
        fi;
        atomic {                                /* Writer._enqueue */
            if
            :: closed -> relies = false; goto next
            :: else
            fi;
            begin(me); mine = u;
            if
            :: me == MAIN && mutation != LEADS_IN_MAIN && mutation != RELIES_ON_MAIN -> call_thread()
            :: else
            fi;
            queue!u;
            if
            :: mutation != LOOKS_FIRST -> relies = relies_on(leader)
            :: else
            fi;
            if
            :: (me == MAIN && mutation != LEADS_IN_MAIN) || relies
            :: else ->
                lead_next();
                if
                :: led -> led = false
                :: else -> call_thread()
                fi
            fi;
            relies = false
        };
        if
        :: unit[mine].signal                    /* Follower.wait */
        :: atomic { me == MAIN && signals > 0 -> signals--; mine = 0; u = 0; goto next }
        fi;
        if
        :: unit[mine].leads ->                  /* Writer._lead */
            if
            :: mutation != LEADS_AT_ONCE -> atomic { turn == NOBODY -> turn = me }
            :: mutation == LEADS_AT_ONCE
            fi;
            assert(!unit[mine].taken);          /* kept */
            write_batch(me);
            if
            :: mutation != ENDS_AS_LEADER -> end_lead(me)
            :: mutation == ENDS_AS_LEADER -> leader = NOBODY
            fi;
            if
            :: turn == me -> turn = NOBODY
            :: else
            fi
        :: else
        fi;
        d_step {
            assert(unit[mine].done);            /* answered */
            unit[mine].leads = false; unit[mine].signal = false;
            mine = 0; u = 0
        }
    od;
ended:
}

/* Writer.submit */
proctype Futures(byte left) {
    byte u;
    bool waits;

    do
    :: atomic { left > 0 && !closed -> left--; begin(NOBODY); call_thread(); queue!u; waits = true }
    :: left == 0 || closed -> break
    od;
    !waits || unit[u].done                      /* answered */
}

/* Writer._run */
proctype Thread() {
    byte u, mine, first, last;
    bool led, is_thread = true;

    do
    :: atomic {                                 /* Writer._wait_for_work */
            if
            :: len(queue) > 0 && (!may_lead(leader) || mutation == STEPS_IN) -> leader = THREAD; goto work
            :: len(queue) == 0 && closed -> goto ending
            :: else
            fi;
            called = called && may_lead(leader);
            asleep = true
        };
end:
        atomic { wakes > 0 -> wakes = 0 };
        goto again;
work:
        atomic { turn == NOBODY -> turn = THREAD };
        write_batch(THREAD);
        turn = NOBODY;
        atomic {                                /* Writer._pass_on */
            leader = NOBODY;
            lead_next();
            led = false
        };
again:
    od;

ending:
    if
    :: mutation != CLOSES_AT_ONCE -> atomic { turn == NOBODY -> turn = THREAD }
    :: else
    fi;
    d_step {
        first = 0;
        do
        :: first < units ->
            assert(unit[first].done);       /* flushed */
            first++
        :: else -> break
        od
    };
    turn = NOBODY
}

/* Writer.close, at any time or never. */
proctype Closing() {
    if
    :: atomic { closed = true; wake() }
    :: true
    fi
}

init {
    byte i;
    atomic {
        load();
        for (i : 1 .. bound[0]) { run Caller(i, bound[1]) }
        if
        :: bound[2] -> run Caller(MAIN, bound[2])
        :: else
        fi;
        run Futures(bound[3]);
        signals = bound[4];
        run Thread();
        run Closing();
        i = 0
    }
}
