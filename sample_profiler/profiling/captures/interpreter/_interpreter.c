/* What a guest needs of the interpreter and Python code cannot do: look at stacks, and at the hooks of others.

   interpreter.py has the same in Python, as far as that goes, for where there was no compiler.

   Looks: a thread without Python code in it looks at the stack of the main thread, or has it look at itself. So no
   tracer, profiler or debugger of somebody else sees anything of it.

   Hooks: the interpreter tells one profiler of each thread about calls. Those of other threads, and those that were set
   in C, no Python code can see or put back. */

#define PY_SSIZE_T_CLEAN
#include <patchlevel.h>
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
#define Py_BUILD_CORE_MODULE
#endif
#include <Python.h>
#ifdef Py_BUILD_CORE_MODULE
#include <internal/pycore_interp.h> /* for the patience of threads, which 3.12 hides from those that wait */
#endif
#include <frameobject.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>
#include <unistd.h>

#define INTERPRETER_VERSION 1 /* of what interpreter.py expects of this file */
#define NS_PER_S 1000000000L

/* Exported by all versions; the newer ones leave it out of their public headers. */
#if PY_VERSION_HEX >= 0x030d0000
PyAPI_FUNC(int) _PyEval_SetProfile(PyThreadState *, Py_tracefunc, PyObject *);
#endif

/* ---- Looks at the stack of the main thread ---- */

#define MOST_DEPTH 512 /* of a stack, from its inner end; deeper ones lack their outer frames */

typedef struct {
    int64_t ns;
    Py_ssize_t depth; /* then so many code objects follow, the inner ones first */
} Look;

static struct {
    pthread_t thread;
    PyThreadState *main;
    pthread_mutex_t mutex;
    pthread_cond_t is_over_changed;
    pid_t pid;
    int is_on, is_over;
    long interval_ns;
    int64_t looked_ns;
    char *memory;
    size_t size, used, last; /* last: where the latest look begins; used: none */
} looks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int
make_room(size_t size)
{
    if (looks.used + size <= looks.size)
        return 1;
    size_t wanted = 2 * looks.size + size + (1 << 16);
    char *memory = PyMem_RawRealloc(looks.memory, wanted);
    if (memory == NULL)
        return 0;
    looks.memory = memory;
    looks.size = wanted;
    return 1;
}

/* Note the stack of the main thread and the time since the last look; one that is as the last was gets that, too. */
static void
note_look(void)
{
    PyObject *codes[MOST_DEPTH];
    Py_ssize_t depth = 0;
    int64_t ns = now_ns(), lasted_ns = ns - looks.looked_ns;
    looks.looked_ns = ns;
    PyFrameObject *frame = PyThreadState_GetFrame(looks.main);
    while (frame != NULL && depth < MOST_DEPTH) {
        codes[depth++] = (PyObject *)PyFrame_GetCode(frame);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    Look *last = (Look *)(looks.memory + looks.last);
    size_t size = (size_t)depth * sizeof(*codes);
    int is_same = looks.last < looks.used && last->depth == depth && memcmp(last + 1, codes, size) == 0;
    if (!is_same && make_room(sizeof(Look) + size)) {
        looks.last = looks.used;
        last = (Look *)(looks.memory + looks.last);
        *last = (Look){.depth = depth};
        memcpy(last + 1, codes, size); /* which keeps these references */
        looks.used += sizeof(Look) + size;
    } else {
        for (Py_ssize_t i = 0; i < depth; i++)
            Py_DECREF(codes[i]);
        if (!is_same)
            return; /* no memory: the time is lost, and nothing else */
    }
    last->ns += lasted_ns;
}

#if PY_VERSION_HEX >= 0x030d0000

/* The main thread looks at itself, between two instructions of its bytecode, and no thread waits for another. */

static atomic_int is_asked;

static int
look(void *unused)
{
    (void)unused;
    atomic_store(&is_asked, 0);
    if (looks.is_on && looks.pid == getpid())
        note_look();
    return 0;
}

static void
begin_looks(void)
{
    atomic_store(&is_asked, 0);
}

static void
end_looks(void)
{
}

static void
take_look(void)
{
    /* One at a time: a main thread that waits in C looks once, when that is over. */
    if (!atomic_exchange(&is_asked, 1) && Py_AddPendingCall(look, NULL) < 0)
        atomic_store(&is_asked, 0);
}

#else

/* Older versions leave it to chance when the main thread notices such a call. So this thread takes its turn, and asks
   for it soon: with the usual patience of a thread, looks would be where the main thread yields, which is where it
   waits. */

#define PATIENCE_US 53 /* a number that nobody else would choose */

static PyGILState_STATE own_state;
static PyThreadState *own_thread;
static unsigned long usual_us;

#ifdef Py_BUILD_CORE_MODULE
static unsigned long
get_patience(void)
{
    return PyInterpreterState_Main()->ceval.gil->interval;
}

static void
set_patience(unsigned long us)
{
    PyInterpreterState_Main()->ceval.gil->interval = us;
}
#else
#define get_patience _PyEval_GetSwitchInterval
#define set_patience _PyEval_SetSwitchInterval
#endif

/* In a process that was forked while this thread waited, nobody else would do so. */
static void
restore_patience(void)
{
    if (looks.is_on && get_patience() == PATIENCE_US)
        set_patience(usual_us);
}

static void
begin_looks(void)
{
    own_state = PyGILState_Ensure();
    own_thread = PyEval_SaveThread();
}

static void
end_looks(void)
{
    PyEval_RestoreThread(own_thread);
    PyGILState_Release(own_state);
}

static void
take_look(void)
{
    unsigned long patience_us = get_patience();
    if (patience_us != PATIENCE_US)
        usual_us = patience_us;
    set_patience(PATIENCE_US);
    PyEval_RestoreThread(own_thread);
    if (get_patience() == PATIENCE_US) /* else somebody has set it meanwhile */
        set_patience(usual_us);
    note_look();
    PyEval_SaveThread();
}

#endif

static void *
look_until_the_end(void *unused)
{
    (void)unused;
    struct timespec due;
    begin_looks();
    clock_gettime(CLOCK_MONOTONIC, &due);
    pthread_mutex_lock(&looks.mutex);
    while (!looks.is_over) {
        due.tv_nsec += looks.interval_ns;
        due.tv_sec += due.tv_nsec / NS_PER_S;
        due.tv_nsec %= NS_PER_S;
        while (!looks.is_over && pthread_cond_timedwait(&looks.is_over_changed, &looks.mutex, &due) != ETIMEDOUT)
            ;
        pthread_mutex_unlock(&looks.mutex);
        take_look();
        pthread_mutex_lock(&looks.mutex);
    }
    pthread_mutex_unlock(&looks.mutex);
    end_looks();
    return NULL;
}

static PyObject *
start_looking(PyObject *module, PyObject *args)
{
    (void)module;
    double interval_s;
    if (!PyArg_ParseTuple(args, "d", &interval_s))
        return NULL;
    if (looks.is_on) {
        PyErr_SetString(PyExc_RuntimeError, "somebody looks already");
        return NULL;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&looks.is_over_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    looks.interval_ns = (long)(interval_s * NS_PER_S);
    looks.looked_ns = now_ns();
    looks.pid = getpid();
    looks.is_over = 0;
    looks.is_on = 1;
    looks.main = PyThreadState_Get();
    if (pthread_create(&looks.thread, NULL, look_until_the_end, NULL) != 0) {
        looks.is_on = 0;
        PyErr_SetString(PyExc_RuntimeError, "the system has no room for one more thread");
        return NULL;
    }
    Py_RETURN_NONE;
}

static void
end_thread(void)
{
    looks.is_on = 0;
    if (looks.pid != getpid())
        return; /* forked: there is no thread here, and its mutex may be locked for ever */
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&looks.mutex);
    looks.is_over = 1;
    pthread_cond_signal(&looks.is_over_changed);
    pthread_mutex_unlock(&looks.mutex);
    pthread_join(looks.thread, NULL);
    Py_END_ALLOW_THREADS
    pthread_cond_destroy(&looks.is_over_changed);
}

static PyObject *
read_look(Look *found)
{
    PyObject **codes = (PyObject **)(found + 1), *stack = PyTuple_New(found->depth);
    for (Py_ssize_t i = 0; i < found->depth; i++) {
        if (stack != NULL)
            PyTuple_SET_ITEM(stack, found->depth - 1 - i, codes[i]);
        else
            Py_DECREF(codes[i]);
    }
    return stack == NULL ? NULL : Py_BuildValue("(LN)", (long long)found->ns, stack);
}

static PyObject *
stop_looking(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (!looks.is_on)
        return PyList_New(0);
    end_thread();
    PyObject *list = PyList_New(0);
    for (size_t at = 0; at < looks.used;) {
        Look *found = (Look *)(looks.memory + at);
        at += sizeof(Look) + (size_t)found->depth * sizeof(PyObject *);
        PyObject *pair = read_look(found); /* also without a list to put it in: it gives the references back */
        if (pair == NULL || (list != NULL && PyList_Append(list, pair) < 0))
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    PyMem_RawFree(looks.memory);
    looks.memory = NULL;
    looks.size = looks.used = looks.last = 0;
    return list;
}

/* ---- The hooks that the interpreter tells of calls ---- */

typedef struct {
    uint64_t thread;
    Py_tracefunc function;
    PyObject *object;
} Hook;

static PyObject *
call_hook(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *state = PyThreadState_Get();
    if (state->c_profilefunc == NULL)
        Py_RETURN_NONE;
    return Py_BuildValue("(NN)", PyLong_FromVoidPtr((void *)(uintptr_t)state->c_profilefunc),
                         PyLong_FromVoidPtr(state->c_profileobj));
}

/* Is what a hook that was set in C does where somebody calls it: it has lost its place, and says nothing. */
static PyObject *
be_quiet(PyObject *self, PyObject *args, PyObject *names)
{
    (void)self;
    (void)args;
    (void)names;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}

static PyObject *
make_callable(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *object = PyThreadState_Get()->c_profileobj;
    if (object != NULL && Py_TYPE(object)->tp_call == NULL) {
        Py_TYPE(object)->tp_call = be_quiet;
        PyType_Modified(Py_TYPE(object));
    }
    Py_RETURN_NONE;
}

static Hook hidden; /* of any thread; the function is NULL: nothing */

static PyObject *
hide_hook(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function = NULL, *object = NULL;
    if (!PyArg_ParseTuple(args, "|OO", &function, &object))
        return NULL;
    hidden = (Hook){0};
    if (function != NULL && object != NULL) {
        hidden.function = (Py_tracefunc)(uintptr_t)PyLong_AsVoidPtr(function);
        hidden.object = PyLong_AsVoidPtr(object); /* is compared, and nothing else */
    }
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* As the interpreter's own, also for those who are told of calls of C functions. */
static PyObject *
getprofile(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *state = PyThreadState_Get();
    int is_hidden = hidden.function != NULL && state->c_profilefunc == hidden.function &&
                    (hidden.object == NULL || state->c_profileobj == hidden.object);
    return Py_NewRef(is_hidden || state->c_profileobj == NULL ? Py_None : state->c_profileobj);
}

static Py_ssize_t
count_threads(void)
{
    Py_ssize_t count = 0;
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state))
        count++;
    return count;
}

static PyObject *
is_any_thread_hooked(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state))
        if (state->c_profilefunc != NULL)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* Take hooks away, or put them back where there is none now. Threads may have ended meanwhile. */
static void
set_hooks(const Hook *hooks, Py_ssize_t num_hooks, int is_back)
{
    for (Py_ssize_t i = 0; i < num_hooks; i++) {
        PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
        while (state != NULL && PyThreadState_GetID(state) != hooks[i].thread)
            state = PyThreadState_Next(state);
        if (state == NULL || (is_back && state->c_profilefunc != NULL))
            continue;
        if (_PyEval_SetProfile(state, is_back ? hooks[i].function : NULL, is_back ? hooks[i].object : NULL) < 0)
            PyErr_Clear(); /* an audit hook forbids it */
    }
}

static PyObject *
call_keeping_hooks(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *call, *function;
    if (!PyArg_ParseTuple(args, "OO", &call, &function))
        return NULL;
    void *own = PyLong_AsVoidPtr(function);
    if (own == NULL && PyErr_Occurred())
        return NULL;
    Hook *hooks = PyMem_Calloc((size_t)count_threads(), sizeof(Hook));
    if (hooks == NULL)
        return PyErr_NoMemory();
    Py_ssize_t num_hooks = 0;
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state)) {
        if (state->c_profilefunc == NULL || (void *)(uintptr_t)state->c_profilefunc == own)
            continue;
        Py_XINCREF(state->c_profileobj);
        hooks[num_hooks++] = (Hook){PyThreadState_GetID(state), state->c_profilefunc, state->c_profileobj};
    }
    set_hooks(hooks, num_hooks, 0); /* else they were told of calls that begin now, and not of their ends */
    PyObject *result = PyObject_CallNoArgs(call), *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    set_hooks(hooks, num_hooks, 1);
    PyErr_Restore(type, value, traceback);
    for (Py_ssize_t i = 0; i < num_hooks; i++)
        Py_XDECREF(hooks[i].object);
    PyMem_Free(hooks);
    if (result == NULL)
        return NULL;
    Py_DECREF(result);
    return PyLong_FromSsize_t(num_hooks);
}

/* ---- What calls a callback in its own thread, or not at all ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *callback;
    unsigned long thread;
    char is_for_all, is_on;
} ThreadCallback;

static PyObject *
call_in_thread(PyObject *self, PyObject *const *args, size_t num_args, PyObject *names)
{
    ThreadCallback *own = (ThreadCallback *)self;
    if (own->is_on && (own->is_for_all || PyThread_get_thread_ident() == own->thread))
        return PyObject_Vectorcall(own->callback, args, num_args, names);
    Py_RETURN_NONE;
}

static PyObject *
thread_callback_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    static char *known[] = {"callback", "is_for_all", NULL};
    PyObject *callback;
    int is_for_all = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|$p", known, &callback, &is_for_all))
        return NULL;
    ThreadCallback *self = (ThreadCallback *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = call_in_thread;
    self->callback = Py_NewRef(callback);
    self->thread = PyThread_get_thread_ident();
    self->is_for_all = (char)is_for_all;
    self->is_on = 1;
    return (PyObject *)self;
}

static int
thread_callback_traverse(ThreadCallback *self, visitproc visit, void *arg)
{
    Py_VISIT(self->callback);
    return 0;
}

static int
thread_callback_clear(ThreadCallback *self)
{
    self->is_on = 0;
    Py_CLEAR(self->callback);
    return 0;
}

static void
thread_callback_dealloc(ThreadCallback *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->callback);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef thread_callback_members[] = {
    {"is_on", T_BOOL, offsetof(ThreadCallback, is_on), 0, "Whether the callback is called at all."},
    {NULL},
};

static PyTypeObject thread_callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sample_profiler.profiling.captures.interpreter._interpreter.ThreadCallback",
    .tp_doc = "Calls a callback in the thread that has made this, or in all, and does nothing while it is off.",
    .tp_basicsize = sizeof(ThreadCallback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(ThreadCallback, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = thread_callback_new,
    .tp_traverse = (traverseproc)thread_callback_traverse,
    .tp_clear = (inquiry)thread_callback_clear,
    .tp_dealloc = (destructor)thread_callback_dealloc,
    .tp_members = thread_callback_members,
};

static PyMethodDef methods[] = {
    {"start_looking", start_looking, METH_VARARGS, "Look at the stack of the main thread at intervals of seconds."},
    {"stop_looking", stop_looking, METH_NOARGS, "Return [(nanoseconds, (code object, ...), outer ones first)]."},
    {"call_hook", call_hook, METH_NOARGS, "Return the addresses of this thread's hook, function and object, or None."},
    {"hide_hook", hide_hook, METH_VARARGS, "Have getprofile say None in place of this hook: function and object."},
    {"make_callable", make_callable, METH_NOARGS,
     "Let the object of this thread's hook be called without an error, as whoever sets it again has it called."},
    {"getprofile", getprofile, METH_NOARGS, "Return the profiling function set with sys.setprofile."},
    {"is_any_thread_hooked", is_any_thread_hooked, METH_NOARGS, "Tell whether a thread of the process has a hook."},
    {"call_keeping_hooks", call_keeping_hooks, METH_VARARGS,
     "Call a function, keep all hooks but those of a function at an address, and return how many these were."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_interpreter",
    .m_doc = "What a guest needs of the interpreter and Python code cannot do.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__interpreter(void)
{
    if (PyType_Ready(&thread_callback_type) < 0)
        return NULL;
#if PY_VERSION_HEX < 0x030d0000
    if (pthread_atfork(NULL, NULL, restore_patience) != 0)
        return PyErr_NoMemory();
#endif
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddIntConstant(module, "INTERPRETER_VERSION", INTERPRETER_VERSION) < 0 ||
        PyModule_AddObjectRef(module, "ThreadCallback", (PyObject *)&thread_callback_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
