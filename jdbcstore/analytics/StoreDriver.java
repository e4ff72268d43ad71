package jdbcstore;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.util.Properties;
import java.util.logging.Logger;

/**
 * Driver for our own URLs: {@code jdbc:jdbcstore:NAME:CLASS:} followed by the vendor's URL without its
 * {@code jdbc:}. Spark chooses a dialect by URL alone, and would mix two dialects that accept the same URL.
 */
public class StoreDriver implements Driver {
    private static final String PREFIX = "jdbc:jdbcstore:";

    public Connection connect(String url, Properties properties) throws SQLException {
        if (!acceptsURL(url)) {
            return null;
        }
        String[] parts = url.substring(PREFIX.length()).split(":", 3);
        return driver(parts[1]).connect("jdbc:" + parts[2], properties);
    }

    private static Driver driver(String name) throws SQLException {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            return (Driver) Class.forName(name, true, loader).getConstructor(new Class[0]).newInstance(new Object[0]);
        } catch (ReflectiveOperationException missing) {
            throw new SQLException("there is no driver " + name, missing);
        }
    }

    public boolean acceptsURL(String url) {
        return url.startsWith(PREFIX);
    }

    public DriverPropertyInfo[] getPropertyInfo(String url, Properties properties) {
        return new DriverPropertyInfo[0];
    }

    public int getMajorVersion() {
        return 1;
    }

    public int getMinorVersion() {
        return 0;
    }

    public boolean jdbcCompliant() {
        return false;
    }

    public Logger getParentLogger() throws SQLFeatureNotSupportedException {
        throw new SQLFeatureNotSupportedException();
    }
}
