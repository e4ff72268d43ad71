package jdbcstore;

import java.io.File;
import java.net.InetAddress;
import java.net.UnknownHostException;
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
    private static final String FILE = "sqlite:";

    public Connection connect(String url, Properties properties) throws SQLException {
        if (!acceptsURL(url)) {
            return null;
        }
        String[] parts = url.substring(PREFIX.length()).split(":", 3);
        Driver driver = driver(parts[1]);
        checkFile(parts[2]);
        return driver.connect("jdbc:" + parts[2], properties);
    }

    private static Driver driver(String name) throws SQLException {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            return (Driver) Class.forName(name, true, loader).getConstructor(new Class[0]).newInstance(new Object[0]);
        } catch (ReflectiveOperationException missing) {
            // Without a cause: Spark's errors end with the last one.
            throw new SQLException("the JDBC driver " + name + " is not on " + host()
                + ": it must be in spark.jars or spark.jars.packages, which Spark sends to every executor");
        }
    }

    /** A file is on one machine; a task that runs on another must say more than that it is not there. */
    private static void checkFile(String url) throws SQLException {
        if (!url.startsWith(FILE)) {
            return;
        }
        String path = url.substring(FILE.length()).split("[?]", 2)[0];
        if (!new File(path).isFile()) {
            throw new SQLException("the SQLite file " + path + " is not on " + host()
                + ": use a database server, a local master, or a folder that every worker has at this path");
        }
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException nameless) {
            return "this worker";
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
