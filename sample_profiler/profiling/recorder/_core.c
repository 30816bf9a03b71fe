/* The compiled recorder: what block.py and nodes.py do, in the memory that a record file shows to others.

   Every node has a slot. It lies on the heap, or in the process's mapped record file once its recorder is attached to
   one, and is the same in both, so that a file costs a block nothing but its event in the ring. The figures of a slot
   are kept twice: an update writes the copy that is not in use and then publishes it by adding 1 to the sequence
   number. So a process that is killed at any instruction leaves a whole copy behind, and a reader in another process
   knows from the number whether what it copied is whole. The histogram is there once: killed between the two, a
   process leaves one that is a pass ahead of its figures. Nothing here waits, locks or allocates on the way of a known
   block, beyond the block object itself.

   The GIL keeps threads apart: entering and leaving are one piece each, so all threads share a slot.

   Which block is open: every thread has a chain of the blocks it entered in its own context, which costs nothing. In a
   copied context (an asyncio task) a context variable carries the chain. What the variable is in the thread's own
   context, and so at first in its copies, stands for the thread's chain. Before that chain grows, copies that there may
   be are left with what it was until then, and the own context gets another one to pass on (part_from_copies). */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <time.h>

/* ---- The layout of a record file: record/format.py says the same in Python, and a test compares the two. ---- */

#define CORE_VERSION 6 /* of what compiled.py expects of this file */
#define RECORD_VERSION 1
#define SUB_BUCKET_BITS 4
#define NUM_BUCKETS 720 /* durations up to 2**48 ns, 78 hours; longer ones count in the last */
#define NUM_RECENT 32
#define NUM_THREAD_NAMES 64
#define NO_KEY UINT32_MAX
#define NO_SLOT UINT32_MAX
#define FLAG_PARALLEL 1u
#define FLOW_POINT 0
#define NOT_STARTED 0

typedef struct __attribute__((packed)) {
    char magic[8];
    uint32_t version, byte_order, header_size, slot_size, num_slots, num_buckets, gauge_size, num_gauge_slots;
    uint32_t event_size, pid;
    uint64_t slots_offset, gauges_offset, strings_offset, strings_size, metadata_offset, metadata_size, ring_offset,
        num_events, file_size, is_compiled;
    int64_t start_anchors[3], end_anchors[3], process_started_ns;
    uint64_t num_nodes, strings_used, num_gauges, metadata_used, events_written, nodes_dropped, flushed_ns, is_closed,
        num_threads;
    uint32_t thread_names[NUM_THREAD_NAMES];
} Header;

typedef struct {
    uint64_t count;
    int64_t total_ns, min_ns, max_ns, last_ns, last_end_ns;
    int64_t num_open, open_start_sum_ns, open_since_ns;
    uint64_t open_thread;
} Figures;

typedef struct {
    uint64_t sequence;
    int32_t parent;
    uint32_t key, kind, window;
    uint64_t flags;
    uint32_t title, unused;
    int64_t started_ns;
    uint64_t device_total_ns, device_count, device_unresolved;
    Figures figures[2];
    uint64_t num_recent;
    int64_t recent_ns[NUM_RECENT];
    uint64_t histogram[NUM_BUCKETS];
    uint8_t reserved[16];
} Slot;

typedef struct {
    int64_t start_ns, end_ns;
    uint32_t node, thread;
    uint64_t flow;
} Event;

_Static_assert(sizeof(Header) == 512, "as HEADER_FIXED and HEADER_LIVE");
_Static_assert(sizeof(Slot) == 6272, "as SLOT_SIZE; slots begin on cache lines");
_Static_assert(sizeof(Event) == 32, "two events fill a cache line");

/* ---- Objects ---- */

typedef struct Node Node;
typedef struct Block Block;
typedef struct Recorder Recorder;
typedef struct Thread Thread;

struct Node {
    Slot *slot;
    PyObject *key, *kind;
    Node *parent, **children;
    PyObject *indices; /* key to index, only where there are many children */
    Py_ssize_t num_children, room_for_children;
    Block *newest_open, *oldest_open;
    uint64_t thread; /* who recorded here first */
    uint32_t index, window;
    uint32_t file_index; /* NO_SLOT: it is not in a file */
    Slot *slot_of_child; /* only during a fork: what a forked child goes on with */
    int64_t *recent_ns; /* the window, oldest first until it is full, then a ring */
    uint64_t num_recent, room_for_recent;
};

struct Recorder {
    PyObject_HEAD
    PyObject *clock;       /* NULL: the monotonic clock itself */
    PyObject *device_hook; /* makes a block that measures the device, too, of a block */
    Node **nodes;
    Py_ssize_t num_nodes, room_for_nodes;
    uint64_t thread;
    int is_parallel;
    Py_buffer file;
    Header *header; /* NULL: it is attached to no file */
    uint64_t num_slots; /* of the file that it may take: the ones behind are for others */
    Recorder *next_attached, *previous_attached;
    Event *events;
    uint64_t num_events;
};

enum { NEW, OPEN, CLOSED, OFF };

struct Block {
    PyObject_HEAD
    Recorder *recorder;
    PyObject *key, *kind;
    Block *outer;
    Node *node;
    Block *newer, *older; /* neighbours among the open blocks of the node; borrowed */
    int64_t start_ns;
    uint64_t thread;
    int state;
};

/* What the variable is in a thread's own context and in copies of that. */
typedef struct {
    PyObject_HEAD
    Thread *thread; /* whose chain it stands for; borrowed; NULL: that one has grown since the copies were made */
    Block *entered_last; /* then: the chain as it was */
} Legacy;

/* What a thread knows; lives in the thread's dictionary and dies with it. */
struct Thread {
    PyObject_HEAD
    PyObject *context; /* the thread's own one; NULL if it could not be told */
    Block *entered_last;
    uint64_t number;
    Legacy *legacy; /* what the variable is in its own context; NULL where that could not be told */
    PyObject *variables; /* weak: all that the own context had when that was set */
    uint64_t context_version; /* of the interpreter, at that time: it counts the contexts that the thread has entered */
};

static PyTypeObject recorder_type, block_type, thread_type, legacy_type;
static size_t variables_offset; /* in a context; 0: not known */
static _Thread_local Thread *current_thread;
static uint64_t num_threads;
static PyObject *entered_last_variable, *thread_key, *add_time_kind, *timeit_kind, *timing_error, *note_thread;
static Recorder *first_attached; /* all that write to a file */
static Block *off_block; /* what every block is while recording is off */
static int is_enabled = 1;
static int has_device; /* whether device=True means anything in this process */

#define MAX_SPARE 128
static Block *spare_blocks[MAX_SPARE];
static int num_spare;

#define PUBLISH(target, value) __atomic_store_n(&(target), (value), __ATOMIC_RELEASE)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

static inline int64_t
monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int
read_clock(Recorder *self, int64_t *now_ns)
{
    if (LIKELY(self->clock == NULL)) {
        *now_ns = monotonic_ns();
        return 0;
    }
    PyObject *value = PyObject_CallNoArgs(self->clock);
    if (value == NULL)
        return -1;
    *now_ns = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *now_ns == -1 && PyErr_Occurred() ? -1 : 0;
}

/* ---- Figures ---- */

static inline uint32_t
bucket_index(int64_t duration_ns)
{
    uint64_t duration = duration_ns > 0 ? (uint64_t)duration_ns : 0;
    if (duration < (2u << SUB_BUCKET_BITS))
        return (uint32_t)duration;
    uint32_t shift = 63 - SUB_BUCKET_BITS - (uint32_t)__builtin_clzll(duration);
    uint64_t index = ((uint64_t)shift << SUB_BUCKET_BITS) + (duration >> shift);
    return index < NUM_BUCKETS ? (uint32_t)index : NUM_BUCKETS - 1;
}

static inline const Figures *
figures_of(const Slot *slot)
{
    return &slot->figures[slot->sequence & 1];
}

/* Return the copy that is not in use, to be filled and published. */
static inline Figures *
begin_update(Slot *slot)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    Figures *new = &slot->figures[(slot->sequence + 1) & 1];
    *new = slot->figures[slot->sequence & 1];
    return new;
}

static inline void
end_update(Slot *slot)
{
    PUBLISH(slot->sequence, slot->sequence + 1);
}

static int
keep_recent(Node *node, int64_t duration_ns)
{
    if (node->num_recent < node->window && node->num_recent == node->room_for_recent) {
        uint64_t room = node->room_for_recent ? 2 * node->room_for_recent : 16;
        if (room > node->window)
            room = node->window;
        int64_t *grown = PyMem_Realloc(node->recent_ns, room * sizeof(int64_t));
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        node->recent_ns = grown;
        node->room_for_recent = room;
    }
    node->recent_ns[node->num_recent % node->window] = duration_ns;
    node->num_recent++;
    Slot *slot = node->slot;
    uint64_t room_in_slot = node->window < NUM_RECENT ? node->window : NUM_RECENT;
    slot->recent_ns[slot->num_recent % room_in_slot] = duration_ns;
    PUBLISH(slot->num_recent, slot->num_recent + 1);
    return 0;
}

static inline void
add_pass(Figures *figures, int64_t duration_ns, int64_t end_ns)
{
    figures->min_ns = figures->count == 0 || duration_ns < figures->min_ns ? duration_ns : figures->min_ns;
    figures->max_ns = duration_ns > figures->max_ns ? duration_ns : figures->max_ns;
    figures->count++;
    figures->total_ns += duration_ns;
    figures->last_ns = duration_ns;
    figures->last_end_ns = end_ns;
}

/* ---- Threads and what is open ---- */

static int
is_loop_running(void)
{
    PyObject *name = PyUnicode_FromString("asyncio.events");
    PyObject *events = name != NULL ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    PyObject *loop = events != NULL ? PyObject_CallMethod(events, "_get_running_loop", NULL) : NULL;
    int is_running = loop != NULL && loop != Py_None;
    Py_XDECREF(loop);
    Py_XDECREF(events);
    PyErr_Clear();
    return is_running;
}

/* Return the variables of a context, borrowed: an immutable map that its copies share until they set one. */
static inline PyObject *
variables_of(PyObject *context)
{
    return *(PyObject **)((char *)context + variables_offset);
}

static int
note_variables(PyObject *visited, void *place)
{
    *(PyObject **)place = *(PyObject **)place == NULL ? visited : Py_None;
    return 0;
}

/* Find where a context keeps its variables: a new one refers to nothing else. Where none is found nothing is lost but
   the time that part_from_copies takes in each block. */
static int
find_variables(void)
{
    PyObject *context = PyContext_CopyCurrent(), *variables = NULL;
    if (context == NULL)
        return -1;
    if (Py_TYPE(context)->tp_traverse != NULL)
        Py_TYPE(context)->tp_traverse(context, note_variables, &variables);
    if (variables != NULL && variables != Py_None && PyType_SUPPORTS_WEAKREFS(Py_TYPE(variables)))
        for (size_t i = sizeof(PyObject); i < (size_t)Py_TYPE(context)->tp_basicsize; i += sizeof(PyObject *))
            if (*(PyObject **)((char *)context + i) == variables)
                variables_offset = i;
    Py_DECREF(context);
    return 0;
}

/* Whether a copy of the thread's own context may have been made since part_from_copies. One that nobody has entered
   shares the variables, which are others after one was set; and the interpreter counts the contexts that this thread
   enters. Only a copy in which another thread, in the meantime, sets a variable and enters no block goes unnoticed. */
static inline int
may_have_copies(Thread *thread, const PyThreadState *state)
{
    if (UNLIKELY(variables_offset == 0 || state->context_ver != thread->context_version))
        return 1;
    PyObject *variables = variables_of(thread->context);
    return ((PyWeakReference *)thread->variables)->wr_object != variables || Py_REFCNT(variables) != 1;
}

static Block *innermost_carried(PyObject *value);

/* Leave copies of the thread's own context, which is the current one, with the chain as it is now. Another thread may
   have entered this context, and blocks in it: then the chain goes on from those. */
static int
part_from_copies(Thread *thread)
{
    Legacy *legacy = PyObject_New(Legacy, &legacy_type);
    if (legacy == NULL)
        return -1;
    legacy->thread = NULL;
    legacy->entered_last = NULL;
    PyObject *value = NULL, *token = NULL;
    if (PyContextVar_Get(entered_last_variable, NULL, &value) == 0)
        token = PyContextVar_Set(entered_last_variable, (PyObject *)legacy);
    if (token == NULL) {
        Py_XDECREF(value);
        Py_DECREF(legacy);
        return -1;
    }
    PyThreadState *state = PyThreadState_Get();
    PyObject *variables = variables_offset != 0 ? Py_NewRef(variables_of(state->context)) : NULL;
    uint64_t version = state->context_ver;
    Legacy *former = thread->legacy;
    legacy->thread = thread;
    thread->legacy = legacy;
    if (former != NULL) {
        former->thread = NULL;
        former->entered_last = (Block *)Py_XNewRef((PyObject *)thread->entered_last);
    }
    /* Only now, since what is freed or allocated may run code that enters blocks. */
    if (value != (PyObject *)former) {
        Block *innermost = innermost_carried(value);
        Py_XSETREF(thread->entered_last, innermost);
    }
    Py_XDECREF(former);
    Py_XDECREF(value);
    Py_DECREF(token);
    if (variables == NULL)
        return 0;
    PyObject *reference = PyWeakref_NewRef(variables, NULL);
    Py_DECREF(variables);
    if (reference == NULL)
        return -1;
    Py_XSETREF(thread->variables, reference);
    thread->context_version = version;
    return 0;
}

static Thread *
make_thread(void)
{
    PyObject *mine = PyThreadState_GetDict();
    if (mine == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this thread cannot record blocks: Python is shutting down");
        return NULL;
    }
    Thread *thread = (Thread *)PyDict_GetItemWithError(mine, thread_key);
    if (thread == NULL) {
        if (PyErr_Occurred())
            return NULL;
        thread = PyObject_New(Thread, &thread_type);
        if (thread == NULL)
            return NULL;
        memset((char *)thread + sizeof(PyObject), 0, sizeof(Thread) - sizeof(PyObject));
        thread->number = ++num_threads;
        if (!is_loop_running()) {
            /* A thread gets its context at the first use of a context variable: this is one. */
            if (part_from_copies(thread) < 0) {
                Py_DECREF(thread);
                return NULL;
            }
            thread->context = Py_XNewRef(PyThreadState_Get()->context);
        }
        int failed = PyDict_SetItem(mine, thread_key, (PyObject *)thread);
        Py_DECREF(thread);
        if (failed)
            return NULL;
        current_thread = thread; /* the hook may record blocks */
        PyObject *noted =
            note_thread != NULL ? PyObject_CallFunction(note_thread, "K", thread->number) : Py_NewRef(Py_None);
        if (noted == NULL)
            PyErr_WriteUnraisable(note_thread);
        Py_XDECREF(noted);
    }
    current_thread = thread;
    return thread;
}

static inline Thread *
get_thread(void)
{
    Thread *thread = current_thread;
    return LIKELY(thread != NULL) ? thread : make_thread();
}

static inline int
is_in_own_context(Thread *thread, const PyThreadState *state)
{
    return LIKELY(state->context == thread->context && state->context != NULL);
}

/* Return the block outside of this one that is open, and forget the closed ones between: tasks that start each other
   would chain them for ever. Borrowed. */
static inline Block *
open_outer(Block *block)
{
    Block *outer = block->outer;
    if (LIKELY(outer == NULL || outer->state == OPEN))
        return outer;
    while (outer != NULL && outer->state != OPEN)
        outer = outer->outer;
    Py_XINCREF(outer);
    Py_SETREF(block->outer, outer);
    return outer;
}

/* Return the innermost open block of a chain as a new reference, or NULL if there is none. */
static Block *
innermost_of(Block **entered_last)
{
    Block *block = *entered_last;
    if (block != NULL && block->state != OPEN) {
        Block *outer = open_outer(block);
        Py_XINCREF(outer);
        Py_SETREF(*entered_last, outer);
        block = outer;
    }
    Py_XINCREF(block);
    return block;
}

/* The same of what the variable is in a context; NULL: it is not set there. */
static Block *
innermost_carried(PyObject *value)
{
    if (value != NULL && Py_IS_TYPE(value, &legacy_type)) {
        Legacy *legacy = (Legacy *)value;
        return innermost_of(legacy->thread != NULL ? &legacy->thread->entered_last : &legacy->entered_last);
    }
    if (value == NULL || !Py_IS_TYPE(value, &block_type))
        return NULL;
    Block *carried = (Block *)Py_NewRef(value), *innermost = innermost_of(&carried);
    Py_XDECREF(carried);
    return innermost;
}

/* The same of the current context. */
static Block *
innermost_open(Thread *thread, const PyThreadState *state, int *failed)
{
    *failed = 0;
    if (is_in_own_context(thread, state) && !may_have_copies(thread, state))
        return innermost_of(&thread->entered_last);
    PyObject *value = NULL;
    *failed = PyContextVar_Get(entered_last_variable, NULL, &value) < 0;
    Block *innermost = innermost_carried(value);
    Py_XDECREF(value);
    return innermost;
}

/* ---- Nodes ---- */

static void
free_node(Node *node)
{
    if (node->file_index == NO_SLOT)
        PyMem_Free(node->slot);
    Py_XDECREF(node->key);
    Py_XDECREF(node->kind);
    Py_XDECREF(node->indices);
    PyMem_Free(node->children);
    PyMem_Free(node->recent_ns);
    PyMem_Free(node);
}

#define NUM_SEARCHED 8

static inline Node *
find_child(Recorder *self, Node *parent, PyObject *key)
{
    Py_ssize_t num = parent->num_children < NUM_SEARCHED ? parent->num_children : NUM_SEARCHED;
    for (Py_ssize_t i = 0; i < num; i++)
        if (parent->children[i]->key == key)
            return parent->children[i];
    if (parent->indices == NULL || !PyUnicode_Check(key))
        return NULL;
    PyObject *index = PyDict_GetItemWithError(parent->indices, key);
    return index != NULL ? self->nodes[PyLong_AsSsize_t(index)] : NULL;
}

static int
is_within(const Header *header, uint64_t offset, uint64_t num, uint64_t size)
{
    uint64_t all = header->file_size;
    return offset % 8 == 0 && offset >= sizeof(Header) && offset <= all && num <= (all - offset) / size;
}

/* Take a buffer for a mapped record file of this version. */
static int
open_file(PyObject *file, Py_buffer *buffer)
{
    if (PyObject_GetBuffer(file, buffer, PyBUF_WRITABLE) < 0)
        return -1;
    Header *header = buffer->buf;
    if ((size_t)buffer->len < sizeof(Header) || header->version != RECORD_VERSION ||
        header->slot_size != sizeof(Slot) || header->event_size != sizeof(Event) ||
        header->file_size > (uint64_t)buffer->len ||
        !is_within(header, header->slots_offset, header->num_slots, sizeof(Slot)) ||
        !is_within(header, header->strings_offset, header->strings_size, 1) ||
        !is_within(header, header->ring_offset, header->num_events, sizeof(Event)) ||
        header->strings_used > header->strings_size) {
        PyBuffer_Release(buffer);
        PyErr_SetString(PyExc_ValueError, "this is no record file of the version that this core writes");
        return -1;
    }
    return 0;
}

/* Write a string behind the others and return its key, or NO_KEY without an error if there is no room. */
static uint32_t
put_string(Header *header, PyObject *string)
{
    PyObject *bytes = PyUnicode_AsEncodedString(string, "utf-8", "replace");
    if (bytes == NULL) {
        PyErr_Clear(); /* the tree is worth more than this name */
        return NO_KEY;
    }
    uint64_t length = (uint64_t)PyBytes_GET_SIZE(bytes);
    uint64_t used = header->strings_used, size = (4 + length + 3) & ~(uint64_t)3;
    uint32_t key = NO_KEY;
    if (used + size <= header->strings_size) {
        char *place = (char *)header + header->strings_offset + used;
        uint32_t stored_length = (uint32_t)length;
        memcpy(place, &stored_length, 4);
        memcpy(place + 4, PyBytes_AS_STRING(bytes), (size_t)length);
        PUBLISH(header->strings_used, used + size);
        key = (uint32_t)used;
    }
    Py_DECREF(bytes);
    return key;
}

static void
put_into_file(Recorder *self, Node *node, PyObject *name, PyObject *title)
{
    Header *header = self->header;
    int has_room = header->num_nodes < self->num_slots && (node->parent == NULL || node->parent->file_index != NO_SLOT);
    uint32_t key = has_room ? put_string(header, name) : NO_KEY;
    if (key == NO_KEY) { /* a block without its name would be taken for another */
        PUBLISH(header->nodes_dropped, header->nodes_dropped + 1);
        return;
    }
    uint32_t index = (uint32_t)header->num_nodes;
    Slot *slot = (Slot *)((char *)header + header->slots_offset) + index;
    memcpy(slot, node->slot, sizeof(Slot));
    slot->key = key;
    slot->title = title != NULL ? put_string(header, title) : NO_KEY;
    slot->parent = node->parent != NULL ? (int32_t)node->parent->file_index : -1;
    PyMem_Free(node->slot);
    node->slot = slot;
    node->file_index = index;
    PUBLISH(header->num_nodes, (uint64_t)index + 1);
}

static Node *
add_node(Recorder *self, Node *parent, PyObject *key, PyObject *kind, uint32_t kind_number, uint32_t window)
{
    if (self->num_nodes == self->room_for_nodes) {
        Py_ssize_t room = self->room_for_nodes ? 2 * self->room_for_nodes : 16;
        Node **grown = PyMem_Realloc(self->nodes, (size_t)room * sizeof(Node *));
        if (grown == NULL)
            goto no_memory;
        self->nodes = grown;
        self->room_for_nodes = room;
    }
    if (parent != NULL && parent->num_children == parent->room_for_children) {
        Py_ssize_t room = parent->room_for_children ? 2 * parent->room_for_children : 4;
        Node **grown = PyMem_Realloc(parent->children, (size_t)room * sizeof(Node *));
        if (grown == NULL)
            goto no_memory;
        parent->children = grown;
        parent->room_for_children = room;
    }
    Node *node = PyMem_Calloc(1, sizeof(Node));
    if (node == NULL)
        goto no_memory;
    node->slot = PyMem_Calloc(1, sizeof(Slot));
    if (node->slot == NULL) {
        PyMem_Free(node);
        goto no_memory;
    }
    node->key = Py_NewRef(key);
    node->kind = Py_XNewRef(kind);
    node->parent = parent;
    node->index = (uint32_t)self->num_nodes;
    node->window = window;
    node->file_index = NO_SLOT;
    node->slot->key = NO_KEY;
    node->slot->kind = kind_number;
    node->slot->window = window;
    if (parent != NULL) {
        PyObject *index = PyLong_FromUnsignedLong(node->index);
        if (parent->indices == NULL)
            parent->indices = PyDict_New();
        if (index == NULL || parent->indices == NULL || PyDict_SetItem(parent->indices, key, index) < 0) {
            Py_XDECREF(index);
            free_node(node);
            return NULL;
        }
        Py_DECREF(index);
        parent->children[parent->num_children++] = node;
    }
    self->nodes[self->num_nodes++] = node;
    if (self->header != NULL)
        put_into_file(self, node, key, NULL);
    return node;
no_memory:
    PyErr_NoMemory();
    return NULL;
}

/* Ask the Python side for a node that is not there, or has another kind: it raises, or calls add_node. */
static Node *
make_node(Recorder *self, Node *parent, PyObject *key, PyObject *kind)
{
    PyObject *index = PyObject_CallMethod((PyObject *)self, "make_node", "IOO", parent->index, key, kind);
    if (index == NULL)
        return NULL;
    Py_ssize_t number = PyLong_AsSsize_t(index);
    Py_DECREF(index);
    if (number < 0 || number >= self->num_nodes) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_SystemError, "make_node() returned the index of no node");
        return NULL;
    }
    return self->nodes[number];
}

/* ---- Block: the hot path ---- */

static inline Block *
new_block(Recorder *recorder, PyObject *key, PyObject *kind)
{
    Block *block;
    if (UNLIKELY(!is_enabled))
        return (Block *)Py_NewRef(off_block);
    if (LIKELY(num_spare > 0)) {
        block = spare_blocks[--num_spare];
        PyObject_Init((PyObject *)block, &block_type);
    }
    else {
        block = PyObject_New(Block, &block_type);
        if (block == NULL)
            return NULL;
    }
    Py_INCREF(recorder);
    block->recorder = recorder;
    block->key = Py_NewRef(key);
    block->kind = Py_NewRef(kind);
    block->outer = NULL;
    block->node = NULL;
    block->newer = block->older = NULL;
    block->start_ns = 0;
    block->thread = 0;
    block->state = NEW;
    return block;
}

static inline void
unlink_open(Block *block)
{
    Node *node = block->node;
    if (block->newer != NULL)
        block->newer->older = block->older;
    else
        node->newest_open = block->older;
    if (block->older != NULL)
        block->older->newer = block->newer;
    else
        node->oldest_open = block->newer;
}

static inline void
note_closed(Figures *figures, Block *block)
{
    Node *node = block->node;
    figures->num_open--;
    figures->open_start_sum_ns -= block->start_ns;
    figures->open_since_ns = node->oldest_open != NULL ? node->oldest_open->start_ns : 0;
    if (node->newest_open != NULL)
        figures->open_thread = node->newest_open->thread;
}

/* Return the node of the innermost open block of this recorder and thread: those of others do not count. */
static inline Node *
parent_of(Recorder *self, Thread *thread, Block *outer)
{
    for (; outer != NULL; outer = outer->outer)
        if (LIKELY(outer->recorder == self && outer->thread == thread->number && outer->state == OPEN))
            return outer->node;
    return self->nodes[0];
}

static inline void
note_writer(Recorder *self, Node *node, Thread *thread, int64_t now_ns)
{
    if (self->nodes[0]->slot->started_ns == NOT_STARTED)
        PUBLISH(self->nodes[0]->slot->started_ns, now_ns);
    if (node->thread != 0)
        node->slot->flags |= FLAG_PARALLEL;
    else
        node->thread = thread->number;
    if (self->thread != 0 && self->thread != thread->number)
        self->is_parallel = 1;
    else
        self->thread = thread->number;
}

static inline void
put_event(Recorder *self, Node *node, int64_t start_ns, int64_t end_ns, uint64_t thread, uint64_t flow)
{
    if (UNLIKELY(self->events == NULL || node->file_index == NO_SLOT))
        return;
    Header *header = self->header;
    uint64_t number = header->events_written;
    Event *event = &self->events[number % self->num_events];
    __atomic_thread_fence(__ATOMIC_RELEASE);
    event->start_ns = start_ns;
    event->end_ns = end_ns;
    event->node = node->file_index;
    event->thread = (uint32_t)thread;
    event->flow = flow;
    PUBLISH(header->events_written, number + 1);
}

static PyObject *
entered_twice(Block *block)
{
    PyObject *method = PyObject_GetAttrString(block->kind, "method");
    if (method != NULL)
        PyErr_Format(timing_error, "the block %R is entered twice; allowed is once: call %S() for each pass",
                     block->key, method);
    Py_XDECREF(method);
    return NULL;
}

static PyObject *
block_enter(Block *block)
{
    Recorder *self = block->recorder;
    if (UNLIKELY(block->state != NEW)) {
        if (block->state == OFF)
            Py_RETURN_NONE;
        return entered_twice(block);
    }
    Thread *thread = get_thread();
    if (UNLIKELY(thread == NULL))
        return NULL;
    PyThreadState *state = PyThreadState_Get();
    int is_own_context = is_in_own_context(thread, state), failed;
    if (LIKELY(is_own_context) && UNLIKELY(may_have_copies(thread, state)) && part_from_copies(thread) < 0)
        return NULL;
    Block *outer;
    if (LIKELY(is_own_context && (thread->entered_last == NULL || thread->entered_last->state == OPEN))) {
        outer = thread->entered_last;
        Py_XINCREF(outer);
    }
    else {
        outer = innermost_open(thread, state, &failed);
        if (UNLIKELY(failed))
            return NULL;
    }
    if (outer != NULL)
        open_outer(outer);
    Node *parent = parent_of(self, thread, outer);
    Node *node = find_child(self, parent, block->key);
    if (UNLIKELY(node == NULL || node->kind != block->kind)) {
        node = PyErr_Occurred() ? NULL : make_node(self, parent, block->key, block->kind);
        if (node == NULL)
            goto failed;
    }
    int64_t now_ns;
    if (UNLIKELY(read_clock(self, &now_ns) < 0))
        goto failed;
    if (UNLIKELY(block->state != NEW)) { /* the clock itself may have entered it */
        Py_XDECREF(outer);
        return entered_twice(block);
    }
    if (UNLIKELY(!is_own_context)) {
        PyObject *token = PyContextVar_Set(entered_last_variable, (PyObject *)block);
        if (token == NULL)
            goto failed;
        Py_DECREF(token);
    }
    block->outer = outer;
    block->node = node;
    block->thread = thread->number;
    block->start_ns = now_ns;
    block->state = OPEN;
    block->older = node->newest_open;
    if (node->newest_open != NULL)
        node->newest_open->newer = block;
    else
        node->oldest_open = block;
    node->newest_open = block;
    Slot *slot = node->slot;
    Figures *figures = begin_update(slot);
    figures->num_open++;
    figures->open_start_sum_ns += now_ns;
    figures->open_since_ns = node->oldest_open->start_ns;
    figures->open_thread = thread->number;
    end_update(slot);
    if (UNLIKELY(node->thread != thread->number))
        note_writer(self, node, thread, now_ns);
    if (LIKELY(is_own_context)) {
        Block *previous = thread->entered_last;
        Py_INCREF(block);
        thread->entered_last = block;
        Py_XDECREF(previous);
    }
    Py_RETURN_NONE;
failed:
    Py_XDECREF(outer);
    return NULL;
}

static PyObject *
block_exit(Block *block)
{
    if (UNLIKELY(block->state != OPEN))
        Py_RETURN_NONE;
    Recorder *self = block->recorder;
    int64_t now_ns;
    if (UNLIKELY(read_clock(self, &now_ns) < 0))
        return NULL;
    if (UNLIKELY(block->state != OPEN)) /* the clock itself may have left it */
        Py_RETURN_NONE;
    int64_t duration_ns = now_ns - block->start_ns;
    Node *node = block->node;
    Slot *slot = node->slot;
    if (UNLIKELY(node->window != 0) && keep_recent(node, duration_ns) < 0)
        return NULL;
    block->state = CLOSED;
    unlink_open(block);
    slot->histogram[bucket_index(duration_ns)]++;
    Figures *figures = begin_update(slot);
    add_pass(figures, duration_ns, now_ns);
    note_closed(figures, block);
    end_update(slot);
    put_event(self, node, block->start_ns, now_ns, block->thread, 0);
    Thread *thread = current_thread;
    if (LIKELY(thread != NULL && thread->entered_last == block)) {
        thread->entered_last = (Block *)Py_XNewRef((PyObject *)block->outer);
        Py_DECREF(block);
    }
    Py_RETURN_NONE;
}

static void
block_dealloc(Block *block)
{
    /* A loop, since recursion in the measured code makes chains as deep as Python's own stack. */
    while (block != NULL) {
        Block *outer = block->outer;
        if (UNLIKELY(block->state == OPEN)) { /* entered, never left, and forgotten by everybody */
            unlink_open(block);
            note_closed(begin_update(block->node->slot), block);
            end_update(block->node->slot);
        }
        Py_XDECREF(block->key);
        Py_XDECREF(block->kind);
        Py_XDECREF(block->recorder);
        if (num_spare < MAX_SPARE)
            spare_blocks[num_spare++] = block;
        else
            PyObject_Free(block);
        block = NULL;
        if (outer != NULL) {
            if (Py_REFCNT(outer) > 1)
                Py_DECREF(outer);
            else
                block = outer;
        }
    }
}

static PyObject *
block_method_enter(PyObject *block, PyObject *Py_UNUSED(ignored))
{
    return block_enter((Block *)block);
}

static PyObject *
block_method_exit(PyObject *block, PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(num_arguments))
{
    return block_exit((Block *)block);
}

static PyObject *block_path(PyObject *op, PyObject *ignored);

static PyMethodDef block_methods[] = {
    {"path", block_path, METH_NOARGS, "Return the keys from the root to this block, which has been entered."},
    {"__enter__", block_method_enter, METH_NOARGS, "Open the block inside the one that is open now."},
    {"__exit__", (PyCFunction)(void (*)(void))block_method_exit, METH_FASTCALL, "Close the block."},
    {NULL},
};

static PyMemberDef block_members[] = {
    {"key", T_OBJECT, offsetof(Block, key), READONLY, "Its name under the block outside of it."},
    {"kind", T_OBJECT, offsetof(Block, kind), READONLY, "What its node's value means."},
    {"outer", T_OBJECT, offsetof(Block, outer), READONLY, "The block that was open when this one was entered."},
    {NULL},
};

static PyTypeObject block_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "sample_profiler.profiling.recorder._core.Block",
    .tp_doc = "One pass through a block: a context manager that is entered once.",
    .tp_basicsize = sizeof(Block),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)block_dealloc,
    .tp_methods = block_methods,
    .tp_members = block_members,
};

/* ---- Recorder ---- */

static PyObject *
recorder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"clock", NULL};
    PyObject *clock;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &clock))
        return NULL;
    if (add_time_kind == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "set_up() has to be called before the first recorder is made");
        return NULL;
    }
    Recorder *self = (Recorder *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->clock = clock == Py_None ? NULL : Py_NewRef(clock);
    self->device_hook = NULL;
    PyObject *empty = PyUnicode_FromString("");
    Node *root = empty != NULL ? add_node(self, NULL, empty, add_time_kind, 0, 0) : NULL;
    Py_XDECREF(empty);
    if (root == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
recorder_traverse(Recorder *self, visitproc visit, void *arg)
{
    Py_VISIT(self->clock);
    Py_VISIT(self->device_hook);
    return 0;
}

static int
recorder_clear(Recorder *self)
{
    Py_CLEAR(self->clock);
    Py_CLEAR(self->device_hook);
    return 0;
}

static void
forget_file(Recorder *self)
{
    if (self->header == NULL)
        return;
    if (self->previous_attached != NULL)
        self->previous_attached->next_attached = self->next_attached;
    else
        first_attached = self->next_attached;
    if (self->next_attached != NULL)
        self->next_attached->previous_attached = self->previous_attached;
    self->next_attached = self->previous_attached = NULL;
    self->header = NULL;
    self->events = NULL;
}

/* Move every slot back to the heap and let the file go, as it is. */
static int
leave_file(Recorder *self)
{
    for (Py_ssize_t i = 0; i < self->num_nodes; i++) {
        Node *node = self->nodes[i];
        if (node->file_index == NO_SLOT)
            continue;
        Slot *slot = PyMem_Malloc(sizeof(Slot));
        if (slot == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(slot, node->slot, sizeof(Slot));
        node->slot = slot;
        node->file_index = NO_SLOT;
    }
    forget_file(self);
    PyBuffer_Release(&self->file); /* also after a fork, which has left all but this */
    return 0;
}

/* ---- Fork: the file is the parent's. These run within fork() itself, so that no thread records between the copy and
   the fork, and a child that records before any of Python's own hooks does so in its own memory. Whoever forks holds
   the GIL; of others' forks, from threads that Python does not know, no child goes on with Python. ---- */

static void
before_fork(void)
{
    if (!PyGILState_Check())
        return;
    for (Recorder *self = first_attached; self != NULL; self = self->next_attached)
        for (Py_ssize_t i = 0; i < self->num_nodes; i++) {
            Node *node = self->nodes[i];
            if (node->file_index == NO_SLOT)
                continue;
            node->slot_of_child = PyMem_Malloc(sizeof(Slot));
            if (node->slot_of_child == NULL)
                Py_FatalError("no memory for what a forked process has recorded before");
            memcpy(node->slot_of_child, node->slot, sizeof(Slot));
        }
}

static void
after_fork_in_parent(void)
{
    if (!PyGILState_Check())
        return;
    for (Recorder *self = first_attached; self != NULL; self = self->next_attached)
        for (Py_ssize_t i = 0; i < self->num_nodes; i++) {
            PyMem_Free(self->nodes[i]->slot_of_child);
            self->nodes[i]->slot_of_child = NULL;
        }
}

static void
after_fork_in_child(void)
{
    while (first_attached != NULL) {
        Recorder *self = first_attached;
        for (Py_ssize_t i = 0; i < self->num_nodes; i++) {
            Node *node = self->nodes[i];
            if (node->slot_of_child == NULL)
                continue;
            node->slot = node->slot_of_child;
            node->slot_of_child = NULL;
            node->file_index = NO_SLOT;
        }
        forget_file(self);
    }
}

static void
recorder_dealloc(Recorder *self)
{
    PyObject_GC_UnTrack(self);
    recorder_clear(self);
    for (Py_ssize_t i = 0; i < self->num_nodes; i++)
        free_node(self->nodes[i]);
    PyMem_Free(self->nodes);
    forget_file(self);
    PyBuffer_Release(&self->file);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Return a block of this kind for the arguments of add_time() and timeit(): a key, and perhaps device=True. */
static PyObject *
make_block_of(PyObject *op, PyObject *kind, PyObject *const *arguments, Py_ssize_t num_arguments, PyObject *names)
{
    Recorder *self = (Recorder *)op;
    if (LIKELY(num_arguments == 1 && names == NULL))
        return (PyObject *)new_block(self, arguments[0], kind);
    Py_ssize_t num_names = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    PyObject *key = num_arguments == 1 ? arguments[0] : NULL;
    int wants_device = 0;
    for (Py_ssize_t i = 0; i < num_names; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *value = arguments[num_arguments + i];
        if (PyUnicode_CompareWithASCIIString(name, "device") == 0) {
            wants_device = PyObject_IsTrue(value);
            if (wants_device < 0)
                return NULL;
        }
        else if (PyUnicode_CompareWithASCIIString(name, "key") == 0 && key == NULL)
            key = value;
        else {
            PyErr_Format(PyExc_TypeError, "a block takes a key and device=, and got %R", name);
            return NULL;
        }
    }
    if (key == NULL || num_arguments > 1) {
        PyErr_SetString(PyExc_TypeError, "a block takes one key, and device= by name");
        return NULL;
    }
    Block *block = new_block(self, key, kind);
    if (block == NULL || !wants_device || !has_device || block->state == OFF ||
        self->device_hook == NULL)
        return (PyObject *)block;
    PyObject *with_device = PyObject_CallOneArg(self->device_hook, (PyObject *)block);
    Py_DECREF(block);
    return with_device;
}

static PyObject *
recorder_add_time(PyObject *self, PyObject *const *arguments, Py_ssize_t num_arguments, PyObject *names)
{
    return make_block_of(self, add_time_kind, arguments, num_arguments, names);
}

static PyObject *
recorder_timeit(PyObject *self, PyObject *const *arguments, Py_ssize_t num_arguments, PyObject *names)
{
    return make_block_of(self, timeit_kind, arguments, num_arguments, names);
}

static PyObject *
recorder_make_block(PyObject *self, PyObject *const *arguments, Py_ssize_t num_arguments)
{
    if (num_arguments != 2) {
        PyErr_SetString(PyExc_TypeError, "make_block() takes a key and a kind");
        return NULL;
    }
    return (PyObject *)new_block((Recorder *)self, arguments[0], arguments[1]);
}

static PyObject *
recorder_clock_ns(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    int64_t now_ns;
    if (read_clock((Recorder *)self, &now_ns) < 0)
        return NULL;
    return PyLong_FromLongLong(now_ns);
}

/* Return the innermost open block of the current context, borrowed: somebody outside of it holds it open. */
static Node *
current_node(Recorder *self, Thread **thread)
{
    *thread = get_thread();
    if (*thread == NULL)
        return NULL;
    int failed;
    Block *innermost = innermost_open(*thread, PyThreadState_Get(), &failed);
    if (failed)
        return NULL;
    Node *node = parent_of(self, *thread, innermost);
    Py_XDECREF(innermost);
    return node;
}

/* Read a moment that somebody else has measured; return -1 and raise for one that is no integer of 64 bits. */
static int
read_moment(PyObject *key, PyObject *moment, int64_t *moment_ns)
{
    *moment_ns = PyLong_AsLongLong(moment);
    if (*moment_ns != -1 || !PyErr_Occurred())
        return 0;
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Format(timing_error,
                     "a pass of %R starts or ends at %R; allowed are whole nanoseconds of 64 bits, as "
                     "time.perf_counter_ns() returns them",
                     key, moment);
    return -1;
}

static PyObject *
recorder_record(PyObject *op, PyObject *const *arguments, Py_ssize_t num_arguments)
{
    Recorder *self = (Recorder *)op;
    if (num_arguments != 3) {
        PyErr_SetString(PyExc_TypeError, "record() takes a key, a start and an end in nanoseconds");
        return NULL;
    }
    int64_t start_ns, end_ns;
    if (read_moment(arguments[0], arguments[1], &start_ns) < 0 || read_moment(arguments[0], arguments[2], &end_ns) < 0)
        return NULL;
    if (end_ns < start_ns) {
        PyErr_Format(timing_error, "the pass of %R ends %lld ns before its start; allowed is an end after the start",
                     arguments[0], (long long)(start_ns - end_ns));
        return NULL;
    }
    if (!is_enabled)
        Py_RETURN_NONE;
    Thread *thread;
    Node *parent = current_node(self, &thread);
    if (parent == NULL)
        return NULL;
    Node *node = find_child(self, parent, arguments[0]);
    if (node == NULL || node->kind != add_time_kind) {
        if (PyErr_Occurred() || (node = make_node(self, parent, arguments[0], add_time_kind)) == NULL)
            return NULL;
    }
    node->slot->histogram[bucket_index(end_ns - start_ns)]++;
    add_pass(begin_update(node->slot), end_ns - start_ns, end_ns);
    end_update(node->slot);
    if (node->thread != thread->number)
        note_writer(self, node, thread, start_ns);
    put_event(self, node, start_ns, end_ns, thread->number, 0);
    Py_RETURN_NONE;
}

static PyObject *
recorder_mark_flow(PyObject *op, PyObject *number)
{
    Recorder *self = (Recorder *)op;
    if (self->events == NULL || !is_enabled)
        Py_RETURN_NONE;
    uint64_t flow = PyLong_AsUnsignedLongLong(number);
    if (flow == (uint64_t)-1 && PyErr_Occurred())
        return NULL;
    Thread *thread;
    Node *node = current_node(self, &thread);
    int64_t now_ns;
    if (node == NULL || read_clock(self, &now_ns) < 0)
        return NULL;
    put_event(self, node, now_ns, FLOW_POINT, thread->number, flow);
    Py_RETURN_NONE;
}

static Node *
node_at(Recorder *self, Py_ssize_t index)
{
    if (index < 0 || index >= self->num_nodes) {
        PyErr_Format(PyExc_IndexError, "there is no node %zd; there are %zd", index, self->num_nodes);
        return NULL;
    }
    return self->nodes[index];
}

static PyObject *
recorder_add_node(PyObject *self, PyObject *arguments)
{
    Py_ssize_t parent_index;
    PyObject *key, *kind;
    unsigned int kind_number, window;
    if (!PyArg_ParseTuple(arguments, "nUOII", &parent_index, &key, &kind, &kind_number, &window))
        return NULL;
    Node *parent = node_at((Recorder *)self, parent_index);
    Node *node = parent != NULL ? add_node((Recorder *)self, parent, key, kind, kind_number, window) : NULL;
    return node != NULL ? PyLong_FromUnsignedLong(node->index) : NULL;
}

static PyObject *
recorder_find_child(PyObject *self, PyObject *arguments)
{
    Py_ssize_t parent_index;
    PyObject *key;
    if (!PyArg_ParseTuple(arguments, "nO", &parent_index, &key))
        return NULL;
    Node *parent = node_at((Recorder *)self, parent_index);
    Node *node = parent != NULL ? find_child((Recorder *)self, parent, key) : NULL;
    if (node == NULL && PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(node != NULL ? (long)node->index : -1);
}

static PyObject *
path_of(Node *node)
{
    PyObject *keys = PyList_New(0);
    for (; keys != NULL && node->parent != NULL; node = node->parent)
        if (PyList_Append(keys, node->key) < 0)
            Py_CLEAR(keys);
    if (keys != NULL && PyList_Reverse(keys) < 0)
        Py_CLEAR(keys);
    return keys;
}

static PyObject *
recorder_describe_node(PyObject *self, PyObject *index)
{
    Node *node = node_at((Recorder *)self, PyLong_AsSsize_t(index));
    if (node == NULL)
        return NULL;
    PyObject *path = path_of(node);
    return path != NULL ? Py_BuildValue("NOO", path, node->kind != NULL ? node->kind : Py_None,
                                        node->thread != 0 || figures_of(node->slot)->count != 0 ? Py_True : Py_False)
                        : NULL;
}

static PyObject *
block_path(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    Block *block = (Block *)op;
    if (block->node == NULL)
        return PyTuple_New(0);
    PyObject *keys = path_of(block->node);
    PyObject *path = keys != NULL ? PyList_AsTuple(keys) : NULL;
    Py_XDECREF(keys);
    return path;
}

/* Add to the time that the device spent in a node: its index, nanoseconds, passes, passes that were not resolved. */
static PyObject *
recorder_add_device(PyObject *op, PyObject *arguments)
{
    Py_ssize_t index;
    long long duration_ns;
    unsigned long long count, unresolved;
    if (!PyArg_ParseTuple(arguments, "nLKK", &index, &duration_ns, &count, &unresolved))
        return NULL;
    Node *node = node_at((Recorder *)op, index);
    if (node == NULL)
        return NULL;
    Slot *slot = node->slot;
    PUBLISH(slot->device_total_ns, slot->device_total_ns + (uint64_t)duration_ns);
    PUBLISH(slot->device_count, slot->device_count + count);
    PUBLISH(slot->device_unresolved, slot->device_unresolved + unresolved);
    Py_RETURN_NONE;
}

/* Count the passes of a histogram in a slot, or only see whether they can be: buckets and numbers that there are. */
static int
add_histogram(Slot *slot, PyObject *histogram, int only_check)
{
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(histogram, &position, &key, &value);) {
        long bucket = PyLong_AsLong(key);
        long long count = PyLong_AsLongLong(value);
        if (PyErr_Occurred())
            return -1;
        if (bucket < 0 || bucket >= NUM_BUCKETS || count < 0) {
            PyErr_SetString(PyExc_OverflowError, "a slot has no bucket for this");
            return -1;
        }
        if (!only_check)
            slot->histogram[bucket] += (uint64_t)count;
    }
    return 0;
}

/* Show the latest passes of a window, recorded elsewhere, in the slot, which has room for so many; or only see whether
   they can be. */
static int
show_recent(Node *node, PyObject *recent, int only_check)
{
    Slot *slot = node->slot;
    uint64_t room = node->window < NUM_RECENT ? node->window : NUM_RECENT;
    for (Py_ssize_t i = 0; room != 0 && i < PyList_GET_SIZE(recent); i++) {
        long long duration_ns = PyLong_AsLongLong(PyList_GET_ITEM(recent, i));
        if (duration_ns == -1 && PyErr_Occurred())
            return -1;
        if (only_check)
            continue;
        slot->recent_ns[slot->num_recent % room] = duration_ns;
        PUBLISH(slot->num_recent, slot->num_recent + 1);
    }
    return 0;
}

/* Add passes that were recorded elsewhere to a node; OverflowError: a slot cannot hold these, and is as it was.

   Of two last passes that are known the later one counts, and what was recorded here before one of which the end is
   not known. */
static PyObject *
recorder_add_to_node(PyObject *op, PyObject *arguments)
{
    Py_ssize_t index;
    long long count, total_ns, min_ns, max_ns, last_ns, last_end_ns, sum_ns;
    PyObject *recent, *histogram;
    if (!PyArg_ParseTuple(arguments, "nLLLLLLO!O!", &index, &count, &total_ns, &min_ns, &max_ns, &last_ns,
                          &last_end_ns, &PyList_Type, &recent, &PyDict_Type, &histogram))
        return NULL;
    Node *node = node_at((Recorder *)op, index);
    if (node == NULL)
        return NULL;
    Slot *slot = node->slot;
    if (count < 0 || __builtin_add_overflow(figures_of(slot)->total_ns, (int64_t)total_ns, &sum_ns)) {
        PyErr_SetString(PyExc_OverflowError, "a slot cannot hold so much");
        return NULL;
    }
    for (int only_check = 1; only_check >= 0; only_check--)
        if (add_histogram(slot, histogram, only_check) < 0 || show_recent(node, recent, only_check) < 0)
            return NULL;
    Figures *figures = begin_update(slot);
    figures->min_ns = figures->count == 0 || min_ns < figures->min_ns ? min_ns : figures->min_ns;
    figures->max_ns = max_ns > figures->max_ns ? max_ns : figures->max_ns;
    if (figures->count == 0 || last_end_ns >= figures->last_end_ns || (last_end_ns == 0 && node->thread == 0)) {
        figures->last_ns = last_ns;
        figures->last_end_ns = last_end_ns;
    }
    figures->count += (uint64_t)count;
    figures->total_ns = sum_ns;
    end_update(slot);
    Py_RETURN_NONE;
}

static PyObject *
recorder_mark_parallel(PyObject *op, PyObject *index)
{
    Node *node = node_at((Recorder *)op, PyLong_AsSsize_t(index));
    if (node == NULL)
        return NULL;
    node->slot->flags |= FLAG_PARALLEL;
    Py_RETURN_NONE;
}

static PyObject *
recorder_start_at(PyObject *op, PyObject *start)
{
    int64_t start_ns = PyLong_AsLongLong(start);
    if (start_ns == -1 && PyErr_Occurred())
        return NULL;
    PUBLISH(((Recorder *)op)->nodes[0]->slot->started_ns, start_ns);
    Py_RETURN_NONE;
}

static void
restart_node(Node *node)
{
    for (Block *block = node->oldest_open, *newer; block != NULL; block = newer) {
        newer = block->newer;
        block->newer = block->older = NULL;
        block->state = CLOSED;
    }
    node->oldest_open = node->newest_open = NULL;
    node->thread = 0;
    node->num_recent = 0;
    Slot *slot = node->slot;
    slot->flags = 0;
    PUBLISH(slot->device_total_ns, 0);
    PUBLISH(slot->device_count, 0);
    PUBLISH(slot->device_unresolved, 0);
    PUBLISH(slot->num_recent, 0);
    memset(slot->histogram, 0, sizeof(slot->histogram));
    memset(begin_update(slot), 0, sizeof(Figures));
    end_update(slot);
}

/* Begin anew in the slots that there are: what has been recorded is forgotten, what is open ends unrecorded. */
static PyObject *
recorder_restart_nodes(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    Recorder *self = (Recorder *)op;
    int64_t now_ns;
    if (read_clock(self, &now_ns) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < self->num_nodes; i++)
        restart_node(self->nodes[i]);
    self->thread = 0;
    self->is_parallel = 0;
    PUBLISH(self->nodes[0]->slot->started_ns, now_ns);
    Py_RETURN_NONE;
}

static int
append_number(PyObject *list, int64_t number)
{
    PyObject *value = PyLong_FromLongLong(number);
    int failed = value == NULL || PyList_Append(list, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

/* Return the figures of a node as of now_ns as a tuple; what is open counts with its open part. */
static PyObject *
read_node(Node *node, int64_t now_ns)
{
    PyObject *recent = PyList_New(0), *histogram = PyDict_New(), *row = NULL;
    if (recent == NULL || histogram == NULL)
        goto done;
    Figures figures = *figures_of(node->slot);
    uint64_t num_recent = node->num_recent < node->window ? node->num_recent : node->window;
    for (uint64_t i = node->num_recent - num_recent; i < node->num_recent; i++)
        if (append_number(recent, node->recent_ns[i % node->window]) < 0)
            goto done;
    uint64_t counts[NUM_BUCKETS];
    memcpy(counts, node->slot->histogram, sizeof(counts));
    for (Block *block = node->oldest_open; block != NULL; block = block->newer) {
        if (block->start_ns > now_ns)
            continue;
        int64_t duration_ns = now_ns - block->start_ns;
        add_pass(&figures, duration_ns, now_ns);
        counts[bucket_index(duration_ns)]++;
        if (node->window != 0 && append_number(recent, duration_ns) < 0)
            goto done;
    }
    Py_ssize_t num_kept = PyList_GET_SIZE(recent);
    if (num_kept > (Py_ssize_t)node->window && PyList_SetSlice(recent, 0, num_kept - node->window, NULL) < 0)
        goto done;
    for (uint32_t i = 0; i < NUM_BUCKETS; i++) {
        if (counts[i] == 0)
            continue;
        PyObject *index = PyLong_FromUnsignedLong(i), *count = PyLong_FromUnsignedLongLong(counts[i]);
        int failed = index == NULL || count == NULL || PyDict_SetItem(histogram, index, count) < 0;
        Py_XDECREF(index);
        Py_XDECREF(count);
        if (failed)
            goto done;
    }
    row = Py_BuildValue("iOOO(KKK)KLLLLLOO", node->parent != NULL ? (int)node->parent->index : -1, node->key,
                        node->kind != NULL ? node->kind : Py_None,
                        node->slot->flags & FLAG_PARALLEL ? Py_True : Py_False,
                        (unsigned long long)node->slot->device_count, (unsigned long long)node->slot->device_total_ns,
                        (unsigned long long)node->slot->device_unresolved, (unsigned long long)figures.count,
                        (long long)figures.total_ns, (long long)figures.min_ns, (long long)figures.max_ns,
                        (long long)figures.last_ns, (long long)figures.last_end_ns, recent, histogram);
done:
    Py_XDECREF(recent);
    Py_XDECREF(histogram);
    return row;
}

static PyObject *
recorder_read_nodes(PyObject *op, PyObject *now)
{
    Recorder *self = (Recorder *)op;
    int64_t now_ns = PyLong_AsLongLong(now);
    if (now_ns == -1 && PyErr_Occurred())
        return NULL;
    PyObject *rows = PyList_New(0);
    for (Py_ssize_t i = 0; rows != NULL && i < self->num_nodes; i++) {
        PyObject *row = read_node(self->nodes[i], now_ns);
        if (row == NULL || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

static PyObject *
recorder_attach(PyObject *op, PyObject *arguments)
{
    Recorder *self = (Recorder *)op;
    PyObject *file, *name, *title;
    unsigned long long num_slots = UINT64_MAX;
    if (!PyArg_ParseTuple(arguments, "OUU|K", &file, &name, &title, &num_slots))
        return NULL;
    if (self->header != NULL) {
        PyErr_SetString(PyExc_ValueError, "this recorder is attached to a record file already: detach it first");
        return NULL;
    }
    PyBuffer_Release(&self->file); /* of a fork's parent */
    if (open_file(file, &self->file) < 0)
        return NULL;
    Header *header = self->file.buf;
    self->header = header;
    self->num_slots = num_slots < header->num_slots ? num_slots : header->num_slots;
    self->next_attached = first_attached;
    if (first_attached != NULL)
        first_attached->previous_attached = self;
    first_attached = self;
    self->num_events = header->num_events;
    self->events = header->num_events ? (Event *)((char *)self->file.buf + header->ring_offset) : NULL;
    for (Py_ssize_t i = 0; i < self->num_nodes; i++)
        put_into_file(self, self->nodes[i], i > 0 ? self->nodes[i]->key : name, i > 0 ? NULL : title);
    Py_RETURN_NONE;
}

static PyObject *
recorder_detach(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    if (leave_file((Recorder *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
recorder_started_ns(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLongLong(((Recorder *)op)->nodes[0]->slot->started_ns);
}

static PyObject *
recorder_is_attached(PyObject *op, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Recorder *)op)->header != NULL);
}

static PyGetSetDef recorder_properties[] = {
    {"is_attached", recorder_is_attached, NULL, "Whether it records into a file.", NULL},
    {NULL},
};

static PyMethodDef recorder_methods[] = {
    {"add_time", (PyCFunction)(void (*)(void))recorder_add_time, METH_FASTCALL | METH_KEYWORDS,
     "Return a block whose value is the sum of all its passes."},
    {"timeit", (PyCFunction)(void (*)(void))recorder_timeit, METH_FASTCALL | METH_KEYWORDS,
     "Return a block whose value is its last pass."},
    {"record", (PyCFunction)(void (*)(void))recorder_record, METH_FASTCALL, "Add a pass that is over."},
    {"mark_flow", recorder_mark_flow, METH_O, "Put a point of a flow into the ring."},
    {"add_device", recorder_add_device, METH_VARARGS, "Add to the time that the device spent in a node."},
    {"add_to_node", recorder_add_to_node, METH_VARARGS,
     "Add passes that were recorded elsewhere: index, count, total, min, max, last, its end, window, histogram."},
    {"mark_parallel", recorder_mark_parallel, METH_O, "Mark a node as recorded by several beside each other."},
    {"started_ns", recorder_started_ns, METH_NOARGS, "Return when the root began; 0: not yet."},
    {"start_at", recorder_start_at, METH_O, "Note when the root began, for readers of the file."},
    {"restart_nodes", recorder_restart_nodes, METH_NOARGS,
     "Forget what has been recorded, keep the nodes and their slots; what is open ends unrecorded."},
    {"make_block", (PyCFunction)(void (*)(void))recorder_make_block, METH_FASTCALL, "Return a block of any kind."},
    {"clock_ns", recorder_clock_ns, METH_NOARGS, "Read the recorder's clock."},
    {"add_node", recorder_add_node, METH_VARARGS, "Add a node and return its index."},
    {"find_child", recorder_find_child, METH_VARARGS, "Return the index of a child, or -1."},
    {"describe_node", recorder_describe_node, METH_O,
     "Return the path of a node as a list of keys, its kind, and whether it was entered, or anything added."},
    {"read_nodes", recorder_read_nodes, METH_O, "Return the figures of all nodes as of a moment, in one piece."},
    {"attach", recorder_attach, METH_VARARGS,
     "Record into a mapped file from now on, as a tree with this name and title; what is recorded moves there. It\n"
     "takes none but the first num_slots slots of the file."},
    {"detach", recorder_detach, METH_NOARGS, "Leave the file as it is and record on without one."},
    {NULL},
};

static PyMemberDef recorder_members[] = {
    {"is_parallel", T_INT, offsetof(Recorder, is_parallel), READONLY, "Whether several threads have recorded."},
    {"device_hook", T_OBJECT, offsetof(Recorder, device_hook), 0, "Makes a block that measures the device, too."},
    {NULL},
};

static PyTypeObject recorder_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "sample_profiler.profiling.recorder._core.Recorder",
    .tp_doc = "The nodes of all threads and tasks of a process. clock is None for the monotonic clock.",
    .tp_basicsize = sizeof(Recorder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = recorder_new,
    .tp_traverse = (traverseproc)recorder_traverse,
    .tp_clear = (inquiry)recorder_clear,
    .tp_dealloc = (destructor)recorder_dealloc,
    .tp_methods = recorder_methods,
    .tp_members = recorder_members,
    .tp_getset = recorder_properties,
};

/* ---- Thread ---- */

static void
thread_dealloc(Thread *thread)
{
    if (current_thread == thread)
        current_thread = NULL;
    if (thread->legacy != NULL) { /* copies of its context may have gone to other threads */
        thread->legacy->thread = NULL;
        thread->legacy->entered_last = (Block *)Py_XNewRef((PyObject *)thread->entered_last);
    }
    Py_CLEAR(thread->legacy);
    Py_CLEAR(thread->variables);
    Py_CLEAR(thread->entered_last);
    Py_CLEAR(thread->context);
    PyObject_Free(thread);
}

static PyTypeObject thread_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "sample_profiler.profiling.recorder._core.Thread",
    .tp_basicsize = sizeof(Thread),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)thread_dealloc,
};

static void
legacy_dealloc(Legacy *legacy)
{
    Py_CLEAR(legacy->entered_last);
    PyObject_Free(legacy);
}

static PyTypeObject legacy_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "sample_profiler.profiling.recorder._core.Legacy",
    .tp_basicsize = sizeof(Legacy),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)legacy_dealloc,
};

/* ---- Module ---- */

static PyObject *
core_get_open_blocks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Thread *thread = get_thread();
    if (thread == NULL)
        return NULL;
    int failed;
    Block *innermost = innermost_open(thread, PyThreadState_Get(), &failed);
    if (failed)
        return NULL;
    PyObject *blocks = PyList_New(0);
    for (Block *block = innermost; blocks != NULL && block != NULL; block = block->outer)
        if (block->state == OPEN && PyList_Append(blocks, (PyObject *)block) < 0)
            Py_CLEAR(blocks);
    Py_XDECREF(innermost);
    return blocks;
}

static PyObject *
core_set_enabled(PyObject *Py_UNUSED(module), PyObject *value)
{
    int wanted = PyObject_IsTrue(value);
    if (wanted < 0)
        return NULL;
    is_enabled = wanted;
    Py_RETURN_NONE;
}

static PyObject *
core_set_up(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *sum, *latest, *error, *hook;
    if (!PyArg_ParseTuple(arguments, "OOOO", &sum, &latest, &error, &hook))
        return NULL;
    Py_XSETREF(note_thread, Py_NewRef(hook));
    Py_XSETREF(add_time_kind, Py_NewRef(sum));
    Py_XSETREF(timeit_kind, Py_NewRef(latest));
    Py_XSETREF(timing_error, Py_NewRef(error));
    /* The thread that imports this is most likely in its own context now. */
    if (get_thread() == NULL)
        return NULL;
    Py_RETURN_NONE;
}

/* Add a string to a mapped file and return its key. Here, so that all who do hold the GIL while they do. */
static PyObject *
core_add_string(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *file, *string;
    Py_buffer buffer;
    if (!PyArg_ParseTuple(arguments, "OU", &file, &string) || open_file(file, &buffer) < 0)
        return NULL;
    uint32_t key = put_string(buffer.buf, string);
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(key);
}

static PyObject *
core_set_device(PyObject *Py_UNUSED(module), PyObject *value)
{
    int wanted = PyObject_IsTrue(value);
    if (wanted < 0)
        return NULL;
    has_device = wanted;
    Py_RETURN_NONE;
}

static PyMethodDef core_methods[] = {
    {"set_device", core_set_device, METH_O, "Let device=True measure a device from now on, or not."},
    {"add_string", core_add_string, METH_VARARGS, "Add a string to a mapped record file and return its key."},
    {"get_open_blocks", core_get_open_blocks, METH_NOARGS, "Return the open blocks of the context, innermost first."},
    {"set_enabled", core_set_enabled, METH_O, "Let blocks record from now on, or not."},
    {"set_up", core_set_up, METH_VARARGS,
     "Take the kinds of add_time and timeit, the error to raise, and what is told of each new thread's number."},
    {NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The compiled recorder.",
    .m_size = -1,
    .m_methods = core_methods,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    if (PyType_Ready(&recorder_type) < 0 || PyType_Ready(&block_type) < 0 || PyType_Ready(&thread_type) < 0 ||
        PyType_Ready(&legacy_type) < 0 || find_variables() < 0)
        return NULL;
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
        PyErr_NoMemory();
        return NULL;
    }
    thread_key = PyUnicode_InternFromString("sample_profiler.profiling.recorder._core.thread");
    entered_last_variable = PyContextVar_New("sample_profiler_compiled_block_entered_last", NULL);
    PyObject *module = thread_key != NULL && entered_last_variable != NULL ? PyModule_Create(&core_module) : NULL;
    if (module == NULL)
        return NULL;
    off_block = PyObject_New(Block, &block_type);
    if (off_block == NULL)
        return NULL;
    memset((char *)off_block + sizeof(PyObject), 0, sizeof(Block) - sizeof(PyObject));
    off_block->state = OFF;
    const struct { const char *name; size_t size; } sizes_of[] = {
        {"header", sizeof(Header)}, {"header_live", offsetof(Header, num_nodes)}, {"slot", sizeof(Slot)},
        {"slot_started_ns", offsetof(Slot, started_ns)}, {"slot_figures", offsetof(Slot, figures)},
        {"figures", sizeof(Figures)}, {"slot_recent", offsetof(Slot, num_recent)},
        {"slot_histogram", offsetof(Slot, histogram)}, {"histogram", sizeof(((Slot *)0)->histogram)},
        {"event", sizeof(Event)}, {"num_recent", NUM_RECENT}, {"num_buckets", NUM_BUCKETS},
        {"num_thread_names", NUM_THREAD_NAMES},
    };
    PyObject *sizes = PyDict_New();
    for (size_t i = 0; sizes != NULL && i < sizeof(sizes_of) / sizeof(*sizes_of); i++) {
        PyObject *size = PyLong_FromSize_t(sizes_of[i].size);
        if (size == NULL || PyDict_SetItemString(sizes, sizes_of[i].name, size) < 0)
            Py_CLEAR(sizes);
        Py_XDECREF(size);
    }
    if (sizes == NULL || PyModule_AddIntConstant(module, "RECORD_VERSION", RECORD_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "CORE_VERSION", CORE_VERSION) < 0 ||
        PyModule_AddObjectRef(module, "SIZES", sizes) < 0 ||
        PyModule_AddObjectRef(module, "Recorder", (PyObject *)&recorder_type) < 0 ||
        PyModule_AddObjectRef(module, "Block", (PyObject *)&block_type) < 0) {
        Py_XDECREF(sizes);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(sizes);
    return module;
}
