/* The rules by which pipelines bind, grant, write, cancel and release, and by which versions of parameters follow each
   other, for two conv replicas and an FC stage of two shards with two segments each. README.md says what is left out. A
   rule's name in brackets stands beside the code that keeps it, too.

   The environment sets: POOL solvers a node, S the staleness, CLOCKS iterations of one micro-batch for each replica,
   ABORT 1: a node gives up at any time, BREAK n: rule n is broken, and the check has to find it. */

c_decl {
  \#include <stdlib.h>
}
byte POOL, S, CLOCKS, ABORT, BREAK;

#define MOST_CLOCKS 4
#define REPLICAS 2
#define IDS      (MOST_CLOCKS * REPLICAS)
#define CLOCK(id)   ((id) / REPLICAS)
#define REPLICA(id) ((id) % REPLICAS)
#define IS_CONV(n)  ((n) < REPLICAS) /* nodes 0, 1: replicas; 2, 3: shards */
#define OTHER(n)    ((n) ^ 1)

/* An id on a node. */
#define UNBOUND  0
#define BOUND    1
#define FORWARD  2 /* replica: the forward pass is done; shard: that of segment 0 */
#define LOSS     3 /* shard: both passes of segment 1 are done */
#define BACKWARD 4 /* shard: the backward pass is done */
#define COMPUTED 5 /* and the gradients of weights are added */
#define FREE     6
#define STATE(n, id) state[(n) * IDS + (id)]
byte state[4 * IDS];

/* What nodes write to each other for an id, by where it lands: activations at each shard (of a replica), a slice of them
   (of the other shard), a partial sum of their gradient (of the other shard), and at the replica a gradient of each shard. */
#define ACTIVATIONS(n, id) place[(id) * 8 + ((n) & 1)]
#define SLICE(n, id)       place[(id) * 8 + 2 + ((n) & 1)]
#define PARTIAL(n, id)     place[(id) * 8 + 4 + ((n) & 1)]
#define GRADIENT(from, id) place[(id) * 8 + 6 + ((from) & 1)]
/* Messages are not queued here: one that is under way may arrive at any time, in any order with others. */
#define NONE      0
#define FINAL     1 /* what goes there is computed and waits for the grant */
#define GRANTED   2 /* its owner granted it, and the writer has not used that */
#define FLYING    3 /* written: the grant ends when it arrives, and the write when its source has been read */
#define CANCELLED 4 /* the grant was given back, and the owner has not heard of it */
#define FILLED    5
#define VOID      6 /* ended by a cancel */
byte place[8 * IDS];

byte next[4];     /* place in the node's own list of ids */
byte bound[4];    /* solvers that are not free */
byte version[4];  /* of the node's parameters: updates made, each of which is reported for the verdict */
byte verdicts[4]; /* clocks whose verdict the node has */
bit stopped[4];   /* the node has given up, or heard that another one has */

#define LENGTH(n)   (IS_CONV(n) -> CLOCKS : CLOCKS * REPLICAS)
#define ID_OF(n, at) (IS_CONV(n) -> (at) * REPLICAS + (n) : (BREAK == 4 && (n) == 3 -> ((at) ^ 1) : (at)))
#define NEXT(n)     ID_OF(n, next[n])

/* [version] An id of clock t computes with version t - S, the same on all nodes and in all runs. */
#define VERSION(id) (CLOCK(id) > S -> CLOCK(id) - S : 0)

/* [bind-next] A node binds the next id of its own list as soon as a solver is free and its version is there.
   [after-verdict] It begins no clock t + S + 2 before the verdict of t. */
#define MAY_BIND(n) (!stopped[n] && next[n] < LENGTH(n) && bound[n] < POOL && \
                     (BREAK == 1 || version[n] >= VERSION(NEXT(n))) && \
                     (BREAK == 6 || CLOCK(NEXT(n)) < verdicts[n] + S + 2))

/* [grant-at-bind] Every place of an id is granted when the id is bound, once. [keep-grant] A grant is kept until its
   writer has what goes there. */
inline grant(there, writer) {
  assert(there == NONE || there == FINAL);
  there = (stopped[writer] -> (BREAK == 9 -> GRANTED : CANCELLED) : (there == FINAL -> FLYING : GRANTED))
}

inline bind(n) {
  i = NEXT(n);
  assert(CLOCK(i) < verdicts[n] + S + 2);
  STATE(n, i) = BOUND;
  if
  :: IS_CONV(n) -> grant(GRADIENT(2, i), 2); grant(GRADIENT(3, i), 3)
  :: else -> grant(ACTIVATIONS(n, i), REPLICA(i)); grant(SLICE(n, i), OTHER(n)); grant(PARTIAL(n, i), OTHER(n))
  fi;
  bound[n]++;
  next[n]++;
  i = 0
}

/* [write-granted] What is final is written as soon as its grant is there, and not before. */
inline send(there) {
  assert(there == NONE || there == GRANTED);
  there = (there == GRANTED || BREAK == 3 -> FLYING : FINAL)
}

/* At most S + 1 versions are kept: an older one has been overwritten. */
inline read_version(n, id) { assert(version[n] >= VERSION(id) && version[n] <= VERSION(id) + S) }

/* [add-in-order] Gradients of weights are added in the order of ids. [one-gradient] And those of a clock after the update
   of the one before, which took the sum away. */
#define STEP(n) (IS_CONV(n) -> REPLICAS : 1)
#define BEFORE_ARE_ADDED(n, id) ((id) < STEP(n) || STATE(n, ((id) >= STEP(n) -> (id) - STEP(n) : 0)) >= COMPUTED)
#define MAY_ADD(n, id) ((BREAK == 10 || version[n] == CLOCK(id)) && (BREAK == 5 || BEFORE_ARE_ADDED(n, id)))

inline add(n, id) {
  assert(version[n] == CLOCK(id) && BEFORE_ARE_ADDED(n, id));
  STATE(n, id) = COMPUTED
}

/* [update-when-complete] A clock's update is made when every contribution is there: those of the node's own ids, and by
   the exchange those of the other replicas. */
#define ADDED(n, t) (STATE(n, (t) * REPLICAS + ((n) & 1)) >= COMPUTED) /* on shards: of the last id if n is 3 */
#define COMPLETE(n) (IS_CONV(n) -> ADDED(0, version[n]) && ADDED(1, version[n]) : \
  STATE(n, version[n] * REPLICAS) >= COMPUTED && STATE(n, version[n] * REPLICAS + 1) >= COMPUTED)
#define BEGUN(n) (STATE(n, version[n] * REPLICAS + (IS_CONV(n) -> (n) : 0)) >= COMPUTED)
#define MAY_UPDATE(n) (!stopped[n] && version[n] < CLOCKS && (BREAK == 7 -> BEGUN(n) : COMPLETE(n)))

inline update(n) {
  assert(COMPLETE(n));
  version[n]++
}

#define VERDICT(t) (version[0] > (t) && version[1] > (t) && version[2] > (t) && version[3] > (t))

/* [release] A solver is free when its work is done, all that it computed is written, and its writes and grants have
   ended: earlier, a retransmission would send the next id's bytes, or a late write land among them. */
#define GRANT_IS_OPEN(there) (there >= GRANTED && there <= CANCELLED)
#define GRANTS_ARE_OPEN(n, id) (IS_CONV(n) -> GRANT_IS_OPEN(GRADIENT(2, id)) || GRANT_IS_OPEN(GRADIENT(3, id)) : \
  GRANT_IS_OPEN(ACTIVATIONS(n, id)) || GRANT_IS_OPEN(SLICE(n, id)) || GRANT_IS_OPEN(PARTIAL(n, id)))
#define IS(there, what) (there == what)
#define SENDS(n, id, what) (IS_CONV(n) -> IS(ACTIVATIONS(2, id), what) || IS(ACTIVATIONS(3, id), what) : \
  IS(SLICE(OTHER(n), id), what) || IS(PARTIAL(OTHER(n), id), what) || IS(GRADIENT(n, id), what))
#define MAY_RELEASE(n, id) \
  (STATE(n, id) >= BOUND && STATE(n, id) <= COMPUTED && (STATE(n, id) == COMPUTED || stopped[n]) && \
   !SENDS(n, id, FINAL) && (BREAK == 8 || !SENDS(n, id, FLYING)) && (BREAK == 2 || !GRANTS_ARE_OPEN(n, id)))

inline release(n, id) {
  STATE(n, id) = FREE;
  bound[n]--
}

/* A write or a cancel arrives: the grant has not ended before, and place and source still belong to the id. */
inline arrive(there, owner, writer, id) {
  assert(STATE(owner, id) >= BOUND && STATE(owner, id) <= COMPUTED);
  assert(there == CANCELLED || STATE(writer, id) <= COMPUTED);
  there = (there == FLYING -> FILLED : VOID)
}

/* [cancel] Who gives up gives back each grant that it holds or gets. */
inline give_back(there) {
  there = (there == FINAL -> NONE : (there == GRANTED && BREAK != 9 -> CANCELLED : there))
}

inline stop(n) {
  stopped[n] = 1;
  i = (IS_CONV(n) -> n : 0);
  do
  :: i < IDS ->
     if
     :: IS_CONV(n) -> give_back(ACTIVATIONS(2, i)); give_back(ACTIVATIONS(3, i))
     :: else -> give_back(SLICE(OTHER(n), i)); give_back(PARTIAL(OTHER(n), i)); give_back(GRADIENT(n, i))
     fi;
     i = i + STEP(n)
  :: else -> break
  od;
  i = 0
}

#define DONE(n)  (version[n] == CLOCKS && next[n] == LENGTH(n) && bound[n] == 0)
#define RESTS(n) (stopped[n] && bound[n] == 0)
#define ARRIVES(there) (there == FLYING || there == CANCELLED)

#define NODE(n) \
  :: d_step { MAY_BIND(n) -> bind(n) } \
  :: d_step { MAY_UPDATE(n) -> update(n) } \
  :: d_step { !stopped[n] && verdicts[n] < CLOCKS && VERDICT(verdicts[n]) -> verdicts[n]++ } \
  :: d_step { ABORT && !stopped[n] -> stop(n) }
#define ON_REPLICA(n, id) \
  :: d_step { !stopped[n] && STATE(n, id) == BOUND -> \
       read_version(n, id); STATE(n, id) = FORWARD; send(ACTIVATIONS(2, id)); send(ACTIVATIONS(3, id)) } \
  :: d_step { !stopped[n] && STATE(n, id) == FORWARD && GRADIENT(2, id) == FILLED && GRADIENT(3, id) == FILLED && \
       MAY_ADD(n, id) -> read_version(n, id); add(n, id) } \
  :: d_step { MAY_RELEASE(n, id) -> release(n, id) } \
  :: d_step { ARRIVES(GRADIENT(2, id)) -> arrive(GRADIENT(2, id), n, 2, id) } \
  :: d_step { ARRIVES(GRADIENT(3, id)) -> arrive(GRADIENT(3, id), n, 3, id) }
#define ON_SHARD(n, id) \
  :: d_step { !stopped[n] && STATE(n, id) == BOUND && ACTIVATIONS(n, id) == FILLED -> \
       read_version(n, id); STATE(n, id) = FORWARD; send(SLICE(OTHER(n), id)) } \
  :: d_step { !stopped[n] && STATE(n, id) == FORWARD && SLICE(n, id) == FILLED -> \
       read_version(n, id); STATE(n, id) = LOSS; send(PARTIAL(OTHER(n), id)) } \
  :: d_step { !stopped[n] && STATE(n, id) == LOSS && PARTIAL(n, id) == FILLED -> \
       read_version(n, id); STATE(n, id) = BACKWARD; send(GRADIENT(n, id)) } \
  :: d_step { !stopped[n] && STATE(n, id) == BACKWARD && MAY_ADD(n, id) -> add(n, id) } \
  :: d_step { MAY_RELEASE(n, id) -> release(n, id) } \
  :: d_step { ARRIVES(ACTIVATIONS(n, id)) -> arrive(ACTIVATIONS(n, id), n, REPLICA(id), id) } \
  :: d_step { ARRIVES(SLICE(n, id)) -> arrive(SLICE(n, id), n, OTHER(n), id) } \
  :: d_step { ARRIVES(PARTIAL(n, id)) -> arrive(PARTIAL(n, id), n, OTHER(n), id) }
#define OF_A_CLOCK(t) \
  ON_REPLICA(0, (t) * 2) ON_REPLICA(1, (t) * 2 + 1) \
  ON_SHARD(2, (t) * 2) ON_SHARD(2, (t) * 2 + 1) ON_SHARD(3, (t) * 2) ON_SHARD(3, (t) * 2 + 1)

init {
  byte i;
  c_code {
    now.POOL = atoi(getenv("POOL"));
    now.S = atoi(getenv("S"));
    now.CLOCKS = atoi(getenv("CLOCKS"));
    now.ABORT = atoi(getenv("ABORT"));
    now.BREAK = atoi(getenv("BREAK"));
  };
  do
  NODE(0) NODE(1) NODE(2) NODE(3)
  OF_A_CLOCK(0)
  OF_A_CLOCK(1)
  OF_A_CLOCK(2)
  OF_A_CLOCK(3)
  :: DONE(0) && DONE(1) && DONE(2) && DONE(3) -> break
  :: ABORT && RESTS(0) && RESTS(1) && RESTS(2) && RESTS(3) -> break
  od
}
