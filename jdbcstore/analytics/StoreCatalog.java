package jdbcstore;

import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Some;

/**
 * The catalog whose tables are temporary views: jdbcstore.orders.messages is `jdbcstore.orders.messages`.
 *
 * Each name is a view of SELECT * from the temporary view of the session that asks, so a name exists in the
 * sessions that have such a view, and means what it means there.
 */
public class StoreCatalog implements TableCatalog, SupportsNamespaces {
    private static final Map VIEWS = new ConcurrentHashMap();
    private String name;

    /** Remembers the definition of a view by the name of its temporary view. */
    public static void put(String name, CatalogTable definition, scala.collection.immutable.Map properties)
            throws Exception {
        String[] parts = name.split("[.]");
        Object identifier = new TableIdentifier(parts[2], new Some(parts[1]), new Some(parts[0]));
        VIEWS.put(name, copy(definition, identifier, properties));
    }

    /** CatalogTable.copy(identifier = ..., properties = ...), of however many fields it has. */
    private static CatalogTable copy(CatalogTable table, Object identifier, Object properties) throws Exception {
        Method[] methods = CatalogTable.class.getMethods();
        for (int i = 0; i < methods.length; i++) {
            if (!methods[i].getName().equals("copy")) continue;
            Object[] values = new Object[methods[i].getParameterCount()];
            for (int field = 0; field < values.length; field++) {
                String named = table.productElementName(field);
                values[field] = named.equals("identifier") ? identifier
                    : named.equals("properties") ? properties : table.productElement(field);
            }
            return (CatalogTable) methods[i].invoke(table, values);
        }
        throw new IllegalStateException("CatalogTable has no copy");
    }

    /** A name; Janino does not call Identifier.of, a method of an interface. */
    private static class View implements Identifier {
        private final String[] namespace;
        private final String name;

        View(String[] namespace, String name) {
            this.namespace = namespace;
            this.name = name;
        }

        public String[] namespace() {
            return namespace;
        }

        public String name() {
            return name;
        }
    }

    private static boolean isThere(String name) {
        SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
        return session.sessionState().catalog().getTempView(name).isDefined();
    }

    private String qualified(String[] namespace, String view) {
        return name + "." + String.join(".", namespace) + "." + view;
    }

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    public String name() {
        return name;
    }

    public Table loadTable(Identifier identifier) throws NoSuchTableException {
        String name = qualified(identifier.namespace(), identifier.name());
        if (!VIEWS.containsKey(name) || !isThere(name)) throw new NoSuchTableException(identifier);
        return new V1Table((CatalogTable) VIEWS.get(name));
    }

    public Identifier[] listTables(String[] namespace) {
        Set found = new TreeSet();
        String start = qualified(namespace, "");
        Object[] names = VIEWS.keySet().toArray();
        for (int i = 0; i < names.length; i++) {
            String each = (String) names[i];
            if (each.startsWith(start) && isThere(each)) found.add(each.substring(start.length()));
        }
        Object[] views = found.toArray();
        Identifier[] identifiers = new Identifier[views.length];
        for (int i = 0; i < views.length; i++) identifiers[i] = new View(namespace, (String) views[i]);
        return identifiers;
    }

    public String[][] listNamespaces() {
        Set found = new TreeSet();
        Object[] names = VIEWS.keySet().toArray();
        for (int i = 0; i < names.length; i++) {
            if (isThere((String) names[i])) found.add(((String) names[i]).split("[.]")[1]);
        }
        Object[] stores = found.toArray();
        String[][] namespaces = new String[stores.length][];
        for (int i = 0; i < stores.length; i++) namespaces[i] = new String[] {(String) stores[i]};
        return namespaces;
    }

    public String[][] listNamespaces(String[] namespace) {
        return namespace.length == 0 ? listNamespaces() : new String[0][];
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        if (listTables(namespace).length == 0) throw new NoSuchNamespaceException(namespace);
        return new java.util.HashMap();
    }

    private static UnsupportedOperationException refused() {
        return new UnsupportedOperationException("the views of a message store can only be read");
    }

    public void createNamespace(String[] namespace, Map metadata) {
        throw refused();
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        throw refused();
    }

    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw refused();
    }

    public Table alterTable(Identifier identifier, TableChange[] changes) {
        throw refused();
    }

    public boolean dropTable(Identifier identifier) {
        throw refused();
    }

    public void renameTable(Identifier from, Identifier to) {
        throw refused();
    }
}
