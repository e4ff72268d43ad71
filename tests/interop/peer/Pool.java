import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.ConcurrentLinkedDeque;
import javax.sql.DataSource;

/** Keeps the connections of a data source that has no pool of its own: Connector/J makes each anew, with TLS. */
final class Pool implements AutoCloseable {
    private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();
    private final DataSource source;
    private volatile boolean closed;

    Pool(DataSource source) {
        this.source = source;
    }

    DataSource dataSource() {
        return (DataSource) Proxy.newProxyInstance(
            Pool.class.getClassLoader(),
            new Class<?>[] {DataSource.class},
            (self, method, values) -> method.getName().equals("getConnection") && values == null
                ? connection()
                : invoke(source, method, values));
    }

    private Connection connection() throws SQLException {
        Connection found = idle.pollFirst();
        while (found != null && found.isClosed()) {
            found = idle.pollFirst();
        }
        Connection connection = found == null ? source.getConnection() : found;
        boolean[] returned = {false};
        return (Connection) Proxy.newProxyInstance(
            Pool.class.getClassLoader(),
            new Class<?>[] {Connection.class},
            (self, method, values) -> {
                switch (method.getName()) {
                    case "close":
                        if (!returned[0]) {
                            returned[0] = true;
                            giveBack(connection);
                        }
                        return null;
                    case "isClosed":
                        return returned[0] || connection.isClosed();
                    default:
                        return invoke(connection, method, values);
                }
            });
    }

    private void giveBack(Connection connection) throws SQLException {
        if (!connection.isClosed() && !connection.getAutoCommit()) {
            connection.rollback();
            connection.setAutoCommit(true);
        }
        idle.addFirst(connection);
        if (closed) {
            close();
        }
    }

    private static Object invoke(Object target, Method method, Object[] values) throws Throwable {
        try {
            return method.invoke(target, values);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    @Override
    public void close() throws SQLException {
        closed = true;
        for (Connection one = idle.pollFirst(); one != null; one = idle.pollFirst()) {
            one.close();
        }
    }
}
