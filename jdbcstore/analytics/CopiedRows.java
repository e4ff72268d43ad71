package jdbcstore;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Types;
import java.util.Arrays;

/**
 * The rows of a query of PostgreSQL, read one by one with COPY. PostgreSQL's driver itself reads a number of rows at
 * once, however large they are.
 */
public class CopiedRows implements InvocationHandler {
    private static final int HEADER = 19;

    private final Connection connection;
    private final Object copy;
    private final Class copying;
    /** The current row: a number of values, then each after its size; -1 in place of a null's. */
    private ByteBuffer row;
    private final int[] places;
    private final int[] sizes;
    private final boolean[] wholes;
    private boolean begun;
    private boolean closed;
    private boolean wasNull;

    private CopiedRows(Connection connection, String query, ResultSetMetaData columns) throws Throwable {
        this.connection = connection;
        places = new int[columns.getColumnCount()];
        sizes = new int[places.length];
        wholes = new boolean[places.length];
        Class api = named(connection, "org.postgresql.PGConnection");
        Object manager = call(api, connection.unwrap(api), "getCopyAPI", new Object[0]);
        copying = named(connection, "org.postgresql.copy.CopyOut");
        copy = call(manager.getClass(), manager, "copyOut", new Object[] {copied(query, columns)});
    }

    /** The command: each value as eight bytes of an integer, as bytes, or as text, which of CHAR has no blanks behind it. */
    private String copied(String query, ResultSetMetaData columns) throws SQLException {
        StringBuilder names = new StringBuilder();
        StringBuilder values = new StringBuilder();
        for (int place = 1; place <= columns.getColumnCount(); place++) {
            String name = (place == 1 ? "c" : ", c") + place;
            int type = columns.getColumnType(place);
            wholes[place - 1] = type == Types.BIGINT || type == Types.INTEGER || type == Types.SMALLINT;
            names.append(name);
            values.append(name).append(type == Types.BINARY ? "" : wholes[place - 1] ? "::bigint" : "::text");
        }
        return "COPY (SELECT " + values + " FROM (" + query + ") rows(" + names + ")) TO STDOUT (FORMAT BINARY)";
    }

    /** The connection, whose statements of Spark's readers answer with such rows. */
    static Connection over(final Connection connection) {
        return (Connection) proxy(Connection.class, new InvocationHandler() {
            public Object invoke(Object self, Method method, Object[] given) throws Throwable {
                Object answer = passed(connection, method, given);
                boolean reads = method.getName().equals("prepareStatement") && given.length == 3;
                return reads ? copying(connection, (PreparedStatement) answer, (String) given[0]) : answer;
            }
        });
    }

    private static Object copying(final Connection connection, final PreparedStatement statement, final String query) {
        return proxy(PreparedStatement.class, new InvocationHandler() {
            public Object invoke(Object self, Method method, Object[] given) throws Throwable {
                if (method.getName().equals("executeQuery")) {
                    return proxy(ResultSet.class, new CopiedRows(connection, query, statement.getMetaData()));
                }
                return passed(statement, method, given);
            }
        });
    }

    public Object invoke(Object self, Method method, Object[] given) throws Throwable {
        String name = method.getName();
        if (name.equals("next")) {
            return Boolean.valueOf(next());
        }
        if (name.equals("wasNull")) {
            return Boolean.valueOf(wasNull);
        }
        if (name.equals("close")) {
            close();
            return null;
        }
        if (!name.startsWith("get") || given == null || !(given[0] instanceof Integer)) {
            throw new SQLFeatureNotSupportedException(name);
        }
        return value(name, ((Integer) given[0]).intValue() - 1);
    }

    private boolean next() throws Throwable {
        byte[] read = (byte[]) call(copying, copy, "readFromCopy", new Object[0]);
        if (read == null) {
            return false;
        }
        row = ByteBuffer.wrap(read);
        row.position(begun ? 0 : HEADER);
        begun = true;
        if (row.getShort() < 0) {
            return next(); // the end of the rows, behind which the copy ends
        }
        for (int column = 0; column < places.length; column++) {
            sizes[column] = row.getInt();
            places[column] = row.position();
            row.position(row.position() + Math.max(0, sizes[column]));
        }
        return true;
    }

    private Object value(String getter, int column) throws SQLException {
        wasNull = sizes[column] < 0;
        if (getter.equals("getLong")) {
            return Long.valueOf(whole(column));
        }
        if (getter.equals("getInt")) {
            return Integer.valueOf((int) whole(column));
        }
        if (getter.equals("getShort")) {
            return Short.valueOf((short) whole(column));
        }
        if (getter.equals("getBytes")) {
            return wasNull ? null : Arrays.copyOfRange(row.array(), places[column], places[column] + sizes[column]);
        }
        if (getter.equals("getString")) {
            return wasNull ? null : text(column);
        }
        if (getter.equals("getBigDecimal")) {
            return wasNull ? null : new BigDecimal(text(column));
        }
        throw new SQLFeatureNotSupportedException(getter);
    }

    private long whole(int column) {
        if (wasNull) {
            return 0;
        }
        return wholes[column] ? row.getLong(places[column]) : Long.parseLong(text(column));
    }

    private String text(int column) {
        return new String(row.array(), places[column], sizes[column], StandardCharsets.UTF_8);
    }

    /** A copy that has not ended is cancelled, with its transaction, which has read only. */
    private void close() throws Throwable {
        boolean active = !closed && ((Boolean) call(copying, copy, "isActive", new Object[0])).booleanValue();
        closed = true;
        if (active) {
            call(copying, copy, "cancelCopy", new Object[0]);
            connection.rollback();
        }
    }

    private static Class named(Connection connection, String name) throws ClassNotFoundException {
        return Class.forName(name, true, connection.getClass().getClassLoader());
    }

    private static Object proxy(Class type, InvocationHandler handler) {
        return Proxy.newProxyInstance(CopiedRows.class.getClassLoader(), new Class[] {type}, handler);
    }

    private static Object call(Class type, Object of, String name, Object[] given) throws Throwable {
        return passed(of, type.getMethod(name, given.length == 0 ? new Class[0] : new Class[] {String.class}), given);
    }

    private static Object passed(Object of, Method method, Object[] given) throws Throwable {
        try {
            return method.invoke(of, given);
        } catch (InvocationTargetException failed) {
            throw failed.getCause();
        }
    }
}
