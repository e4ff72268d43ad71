# C versions of the functions in plain.py: the same promises, by the offsets of slots.

cdef extern from *:
    """
    #include <structmember.h>

    /* The offsets of slots, as bytes; names without a slot are an error. */
    static PyObject *core_places(PyObject *cls, PyObject *names)
    {
        PyObject *each = PySequence_Tuple(names), *made = NULL;
        if (each == NULL)
            return NULL;
        Py_ssize_t count = PyTuple_GET_SIZE(each);
        made = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(Py_ssize_t));
        for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
            PyObject *slot = PyObject_GetAttr(cls, PyTuple_GET_ITEM(each, i));
            if (slot != NULL && Py_TYPE(slot) == &PyMemberDescr_Type)
                ((Py_ssize_t *)PyBytes_AS_STRING(made))[i] = ((PyMemberDescrObject *)slot)->d_member->offset;
            else {
                if (slot != NULL)
                    PyErr_Format(PyExc_TypeError, "%S is not a slot", PyTuple_GET_ITEM(each, i));
                Py_CLEAR(made);
            }
            Py_XDECREF(slot);
        }
        Py_DECREF(each);
        return made;
    }

    #define CORE_SLOT(object, places, i) \\
        (*(PyObject **)((char *)(object) + ((Py_ssize_t *)PyBytes_AS_STRING(places))[i]))
    #define CORE_COUNT(places) (PyBytes_GET_SIZE(places) / (Py_ssize_t)sizeof(Py_ssize_t))

    static PyObject *core_sample(PyObject *one, PyObject *places)
    {
        (void)places;
        return Py_NewRef(one);
    }

    static int core_same(PyObject *one, PyObject *other, PyObject *places)
    {
        if (Py_TYPE(one) != Py_TYPE(other))
            return 0;
        for (Py_ssize_t i = 0, count = CORE_COUNT(places); i < count; i++)
            if (CORE_SLOT(one, places, i) != CORE_SLOT(other, places, i))
                return 0;
        return 1;
    }

    static void core_set(PyObject *one, PyObject *places, Py_ssize_t i, PyObject *value)
    {
        PyObject *before = CORE_SLOT(one, places, i);
        Py_XINCREF(value);
        CORE_SLOT(one, places, i) = value;
        Py_XDECREF(before);
    }

    static void core_copy(PyObject *one, PyObject *other, PyObject *places)
    {
        for (Py_ssize_t i = 0, count = CORE_COUNT(places); i < count; i++)
            core_set(one, places, i, CORE_SLOT(other, places, i));
    }

    static PyObject *core_read(PyObject *one, PyObject *places)
    {
        Py_ssize_t count = CORE_COUNT(places);
        PyObject *made = PyTuple_New(count);
        for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
            PyObject *value = CORE_SLOT(one, places, i);
            if (value == NULL) {
                PyErr_SetString(PyExc_AttributeError, "a slot is empty");
                Py_CLEAR(made);
            }
            else
                PyTuple_SET_ITEM(made, i, Py_NewRef(value));
        }
        return made;
    }

    /* The objects below refer to no others that could refer to them, so that the collector need not visit them. */
    static PyObject *core_new(PyObject *cls, PyObject *places, PyObject *values)
    {
        PyObject *made = PyType_GenericAlloc((PyTypeObject *)cls, 0);
        if (made == NULL)
            return NULL;
        for (Py_ssize_t i = 0, count = CORE_COUNT(places); i < count; i++)
            CORE_SLOT(made, places, i) = Py_NewRef(PyTuple_GET_ITEM(values, i));
        PyObject_GC_UnTrack(made);
        return made;
    }

    static PyObject *core_new_tuple(PyObject *cls, PyObject *values)
    {
        Py_ssize_t count = PyTuple_GET_SIZE(values);
        PyObject *made = ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, count);
        if (made == NULL)
            return NULL;
        for (Py_ssize_t i = 0; i < count; i++)
            PyTuple_SET_ITEM(made, i, Py_NewRef(PyTuple_GET_ITEM(values, i)));
        PyObject_GC_UnTrack(made);
        return made;
    }
    """
    object places "core_places" (object cls, object names)
    object sample "core_sample" (object one, object places)
    bint same "core_same" (object one, object other, object places)
    object read "core_read" (object one, object places)
    void put "core_set" (object one, object places, Py_ssize_t index, object value)
    void copy "core_copy" (object one, object other, object places)
    object new "core_new" (object cls, object places, object values)
    object new_tuple "core_new_tuple" (object cls, object values)
