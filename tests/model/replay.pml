/*
 * What the models have in common: the mutation of this run, and the trace that is replayed.
 *
 * A step that can be observed is guarded by allowed(), and followed by advance(). Without a trace it is always
 * allowed. With one, only the next event of the trace is, and a run that comes to the trace's end violates an
 * assertion: so the verifier reports an error for a trace that the model allows, and none for another.
 */
#define EVENT(kind, a, b, c) ((((kind) * 64 + (a)) * 64 + (b)) * 64 + (c))
#define allowed(kind, a, b, c) (!replayed || history[at] == EVENT(kind, a, b, c))

c_decl { static int farthest; };

#define EVENTS 2000

hidden byte mutation;       /* 0: the model of the product */
hidden byte replayed;
hidden int history[EVENTS];   /* the event behind the last is -1 */
hidden byte bound[8];       /* of the run, see init */
short at;                   /* the next event */

inline advance() {
    if
    :: replayed ->
        at++;
        c_code { if (now.at > farthest) { farthest = now.at; printf("replayed %d\n", farthest); } };
        assert(history[at] != -1)     /* the whole trace is allowed */
    :: else
    fi
}

inline load() {
    c_code {
        char *name = getenv("MODEL_TRACE");
        char *number = getenv("MODEL_MUTATION");
        char *bounds = getenv("MODEL_BOUNDS");
        int read = 0;
        mutation = number ? atoi(number) : 0;
        while (bounds && *bounds && read < 8) bound[read++] = (unsigned char) strtol(bounds, &bounds, 10);
        if (name) {
            FILE *file = fopen(name, "r");
            int count = 0;
            if (!file) { perror(name); exit(2); }
            while (count < 1999 && fscanf(file, "%d", &history[count]) == 1) count++;
            history[count] = -1;
            fclose(file);
            replayed = 1;
        }
    }
}
