package jdbcstore;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverPropertyInfo;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Statement;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.logging.Logger;

/**
 * Driver for our own URLs: {@code jdbc:jdbcstore:NAME:CLASS:} followed by the vendor's URL without its
 * {@code jdbc:}. Spark chooses a dialect by URL alone, and would mix two dialects that accept the same URL.
 */
public class StoreDriver implements Driver {
    private static final String PREFIX = "jdbc:jdbcstore:";
    private static final String FILE = "sqlite:file:";
    /** The property that has the others: some of Spark's readers write all names in small letters. */
    private static final String PROPERTIES = "jdbcstoreproperties";
    /** What the Python driver's database said, and the query that it answered. */
    private static final String IDENTITY = "jdbcstoreIdentity";
    private static final String IDENTIFYING = "jdbcstoreIdentifying";
    /** A file of certificates in PEM, for a driver that reads Java's key stores only. */
    private static final String CERTIFICATES = "jdbcstoreCertificates";
    private static final String OPEN = "certificates are no secret";
    private static final Map STORES = new HashMap();

    public Connection connect(String url, Properties properties) throws SQLException {
        if (!acceptsURL(url)) {
            return null;
        }
        String[] parts = url.substring(PREFIX.length()).split(":", 3);
        Driver driver = driver(parts[1]);
        checkFile(parts[2]);
        Properties others = new Properties();
        others.putAll(properties);
        String encoded = (String) others.remove(PROPERTIES);
        if (encoded != null) {
            String[] pairs = encoded.split("&");
            for (int i = 0; i < pairs.length; i++) {
                String[] pair = pairs[i].split("=", 2);
                others.setProperty(decoded(pair[0]), decoded(pair[1]));
            }
        }
        trust(others);
        String identity = (String) others.remove(IDENTITY);
        String question = (String) others.remove(IDENTIFYING);
        Connection connection = driver.connect("jdbc:" + parts[2], others);
        if (identity != null) {
            identify(connection, question, identity);
        }
        return parts[2].startsWith("postgresql:") ? CopiedRows.over(connection) : connection;
    }

    private static String decoded(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static void trust(Properties properties) throws SQLException {
        String file = (String) properties.remove(CERTIFICATES);
        if (file != null) {
            properties.setProperty("trustCertificateKeyStoreUrl", store(file));
            properties.setProperty("trustCertificateKeyStoreType", "PKCS12");
            properties.setProperty("trustCertificateKeyStorePassword", OPEN);
        }
    }

    /** The URL of a key store with these certificates, made once in each process as long as they stay the same. */
    private static synchronized String store(String file) throws SQLException {
        try {
            Set certificates = new LinkedHashSet();
            InputStream input = new FileInputStream(file);
            try {
                certificates.addAll(CertificateFactory.getInstance("X.509").generateCertificates(input));
            } finally {
                input.close();
            }
            if (!STORES.containsKey(certificates)) {
                KeyStore made = KeyStore.getInstance("PKCS12");
                made.load(null, null);
                for (Object each : certificates) {
                    made.setCertificateEntry("ca" + made.size(), (Certificate) each);
                }
                File saved = File.createTempFile("jdbcstore", ".p12");
                saved.deleteOnExit();
                OutputStream output = new FileOutputStream(saved);
                try {
                    made.store(output, OPEN.toCharArray());
                } finally {
                    output.close();
                }
                STORES.put(certificates, saved.toURI().toString());
            }
            return (String) STORES.get(certificates);
        } catch (IOException unreadable) {
            throw new SQLException("the certificates " + file + " cannot be read on " + host() + ": " + unreadable);
        } catch (GeneralSecurityException wrong) {
            throw new SQLException("the certificates " + file + " cannot be read on " + host() + ": " + wrong);
        }
    }

    /** The tasks of a cluster connect from other machines, and all of them after the session did. */
    private static void identify(Connection connection, String question, String identity) throws SQLException {
        boolean same = false;
        try {
            Statement statement = connection.createStatement();
            ResultSet found = statement.executeQuery(question);
            String reached = found.next() ? found.getString(1) : null;
            statement.close();
            same = identity.equals(reached);
            if (!same) {
                throw new SQLException("the JDBC driver on " + host() + " reaches another database than the Python"
                    + " driver (" + reached + " instead of " + identity + "); name one server, database and schema"
                    + " in the URL, and connect again if the tables were created again");
            }
        } finally {
            if (!same) {
                connection.close();
            }
        }
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
        String path = URI.create(url.substring(FILE.length()).split("[?]", 2)[0]).getPath();
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
