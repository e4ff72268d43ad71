import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import javax.jms.InvalidSelectorException;
import javax.sql.DataSource;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;
import org.apache.activemq.broker.region.DestinationInterceptor;
import org.apache.activemq.broker.region.policy.ConstantPendingMessageLimitStrategy;
import org.apache.activemq.broker.region.policy.LastImageSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.broker.region.policy.VMPendingQueueMessageStoragePolicy;
import org.apache.activemq.broker.region.virtual.CompositeDestination;
import org.apache.activemq.broker.region.virtual.CompositeQueue;
import org.apache.activemq.broker.region.virtual.CompositeTopic;
import org.apache.activemq.broker.region.virtual.FilteredDestination;
import org.apache.activemq.broker.region.virtual.VirtualDestination;
import org.apache.activemq.broker.region.virtual.VirtualDestinationInterceptor;
import org.apache.activemq.broker.region.virtual.VirtualTopic;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.store.PersistenceAdapter;
import org.apache.activemq.store.SharedFileLocker;
import org.apache.activemq.store.jdbc.JDBCAdapter;
import org.apache.activemq.store.jdbc.JDBCPersistenceAdapter;
import org.apache.activemq.store.jdbc.LeaseDatabaseLocker;
import org.apache.activemq.store.jdbc.adapter.MySqlJDBCAdapter;
import org.apache.activemq.store.jdbc.adapter.PostgresqlJDBCAdapter;
import org.apache.activemq.store.kahadb.FilteredKahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.MultiKahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.disk.journal.Journal;
import org.apache.activemq.store.kahadb.scheduler.JobSchedulerStoreImpl;
import org.mariadb.jdbc.MariaDbPoolDataSource;
import org.postgresql.ds.PGPoolingDataSource;

/** One broker at a time, on a database named by a JDBC URL or on files, with an OpenWire and a STOMP port. */
final class EmbeddedBroker {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private BrokerService broker;
    private JDBCPersistenceAdapter store;
    private AutoCloseable pool;
    private String openWireUrl;

    /** A connection factory for the running broker; over TCP, so that every message is marshalled. */
    ActiveMQConnectionFactory connectionFactory() {
        ActiveMQConnectionFactory factory =
            new ActiveMQConnectionFactory("peer", "", openWireUrl() + "?jms.watchTopicAdvisories=false");
        factory.setTrustAllPackages(true); // object messages here are our own
        return factory;
    }

    String openWireUrl() {
        if (broker == null) {
            throw new IllegalStateException("no broker is running");
        }
        return openWireUrl;
    }

    JsonNode start(JsonNode request) throws Exception {
        if (broker != null) {
            throw new IllegalStateException("a broker is running already");
        }
        long begin = System.nanoTime();
        broker = new BrokerService();
        broker.setBrokerName("peer");
        if (request.hasNonNull("kahadb")) {
            broker.setPersistenceAdapter(
                request.path("per_destination").asBoolean(false) ? manyKahaDbs(request) : kahaDb(request));
        } else {
            broker.setPersistenceAdapter(request.hasNonNull("journal") ? journaled(request) : jdbc(request));
        }
        broker.setDataDirectory(System.getProperty("java.io.tmpdir"));
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setAdvisorySupport(request.path("advisories").asBoolean(false));
        setNumber("setMaxUncommittedCount", request.path("max_uncommitted"));
        setNumber("setMaxInflatedDataSize", request.path("max_inflated"));
        broker.setSchedulerSupport(request.path("scheduler").asBoolean(false));
        if (broker.isSchedulerSupport()) {
            JobSchedulerStoreImpl jobs = new JobSchedulerStoreImpl();
            jobs.setDirectory(request.hasNonNull("jobs")
                ? new File(request.get("jobs").asText())
                : Files.createTempDirectory("jdbcstore-peer-jobs-").toFile());
            broker.setJobSchedulerStore(jobs);
        }
        broker.setPopulateJMSXUserID(true);
        broker.setDestinationPolicy(policies(request));
        if (request.hasNonNull("composite")) {
            broker.setDestinationInterceptors(interceptors(request.get("composite")));
        }
        TransportConnector openWire = broker.addConnector("tcp://127.0.0.1:" + request.path("openwire_port").asInt(0));
        TransportConnector stomp = broker.addConnector("stomp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        if (!broker.isStarted()) {
            throw new IllegalStateException("the broker did not start", broker.getStartException());
        }
        openWireUrl = openWire.getConnectUri().toString();
        ObjectNode result = NODES.objectNode();
        result.put("openwire_url", openWireUrl);
        result.put("stomp_port", stomp.getConnectUri().getPort());
        result.put("milliseconds", (System.nanoTime() - begin) / 1_000_000);
        return result;
    }

    private JDBCPersistenceAdapter jdbc(JsonNode request) throws Exception {
        store = new JDBCPersistenceAdapter();
        store.setDataSource(dataSource(request.get("jdbc_url").asText(), request));
        boolean isKnown = request.get("jdbc_url").asText().startsWith("jdbc:h2:"); // to ActiveMQ, by its name
        if (!isKnown && !request.path("detects_adapter").asBoolean(false)) {
            store.setAdapter(adapter(request));
        }
        setLocker(request);
        store.setCleanupPeriod(0); // tests ask for a cleanup when they want one
        return store;
    }

    /** The tables with a journal in a directory in front of them, which ActiveMQ had until 6.0. */
    private PersistenceAdapter journaled(JsonNode request) throws Exception {
        jdbc(request);
        Class<?> kind = Class.forName("org.apache.activemq.store.journal.JournalPersistenceAdapterFactory");
        Object factory = kind.getConstructor().newInstance();
        File directory = new File(request.get("journal").asText());
        kind.getMethod("setDataDirectoryFile", File.class).invoke(factory, directory);
        kind.getMethod("setDataSource", DataSource.class).invoke(factory, store.getDataSource());
        kind.getMethod("setJdbcAdapter", JDBCPersistenceAdapter.class).invoke(factory, store);
        return (PersistenceAdapter) kind.getMethod("createPersistenceAdapter").invoke(factory);
    }

    /** Files in a directory, with ActiveMQ's own settings: each write is synced before it is answered. */
    private PersistenceAdapter kahaDb(JsonNode request) {
        KahaDBPersistenceAdapter files = new KahaDBPersistenceAdapter();
        files.setDirectory(new File(request.get("kahadb").asText()));
        files.setJournalDiskSyncStrategy(Journal.JournalDiskSyncStrategy.ALWAYS.name());
        files.setConcurrentStoreAndDispatchQueues(request.path("concurrent_dispatch").asBoolean(true));
        files.setJournalMaxFileLength(request.path("file_length").asInt(Journal.DEFAULT_MAX_FILE_LENGTH));
        files.setCheckpointInterval(request.path("checkpoint_ms").asLong(5_000));
        files.setCleanupInterval(request.path("cleanup_ms").asLong(30_000));
        files.setCompactAcksAfterNoGC(request.path("compact_after").asInt(10));
        files.setCompactAcksIgnoresStoreGrowth(request.path("compact_after").asInt(10) < 10);
        files.setChecksumJournalFiles(request.path("checksums").asBoolean(true));
        pool = () -> { };
        return files;
    }

    /** mKahaDB, with a folder for each destination. */
    private PersistenceAdapter manyKahaDbs(JsonNode request) {
        KahaDBPersistenceAdapter template = new KahaDBPersistenceAdapter();
        template.setJournalMaxFileLength(request.path("file_length").asInt(Journal.DEFAULT_MAX_FILE_LENGTH));
        FilteredKahaDBPersistenceAdapter all = new FilteredKahaDBPersistenceAdapter();
        all.setPerDestination(true);
        all.setPersistenceAdapter(template);
        MultiKahaDBPersistenceAdapter many = new MultiKahaDBPersistenceAdapter();
        many.setDirectory(new File(request.get("kahadb").asText()));
        many.setJournalMaxFileLength(request.path("file_length").asInt(Journal.DEFAULT_MAX_FILE_LENGTH));
        many.setFilteredPersistenceAdapters(List.of(all));
        pool = () -> { };
        return many;
    }

    /** The database-locker is the one that ActiveMQ takes if it is told of no other. */
    private void setLocker(JsonNode request) throws Exception {
        if (request.hasNonNull("lease_ms")) {
            LeaseDatabaseLocker locker = new LeaseDatabaseLocker();
            locker.setLockAcquireSleepInterval(request.get("lease_ms").asLong());
            store.setLockKeepAlivePeriod(request.get("lease_ms").asLong() / 4);
            store.setLocker(locker);
        }
        if (request.hasNonNull("lock_directory")) {
            store.setDirectory(new File(request.get("lock_directory").asText())); // the locker takes it from there
            store.setLocker(new SharedFileLocker());
        }
        if (request.hasNonNull("acquire_ms")) {
            store.getLocker().setLockAcquireSleepInterval(request.get("acquire_ms").asLong());
        }
        if (request.hasNonNull("keep_alive_ms")) {
            store.setLockKeepAlivePeriod(request.get("keep_alive_ms").asLong());
        }
    }

    JsonNode stop() throws Exception {
        long begin = System.nanoTime();
        if (broker != null) {
            broker.stop();
            broker.waitUntilStopped();
            broker = null;
            pool.close();
        }
        return NODES.objectNode().put("milliseconds", (System.nanoTime() - begin) / 1_000_000);
    }

    /** Removes acknowledged topic messages of every priority; one run of ActiveMQ's takes one priority. */
    JsonNode cleanup() {
        for (int priority = 0; priority < 10; priority++) {
            store.cleanup();
        }
        return NODES.objectNode();
    }

    private DataSource dataSource(String url, JsonNode request) throws SQLException {
        String user = request.get("user").asText();
        String password = request.path("password").asText("");
        if (url.startsWith("jdbc:postgresql:")) {
            PGPoolingDataSource source = new PGPoolingDataSource();
            source.setDataSourceName(Long.toString(System.nanoTime())); // pools are known by name, for ever
            source.setUrl(url);
            source.setUser(user);
            source.setPassword(password);
            source.setMaxConnections(64);
            pool = source::close;
            return source;
        }
        if (url.startsWith("jdbc:mysql:")) {
            // Else it asks the server for the state of the session before each statement.
            String knowing = url + (url.contains("?") ? "&" : "?") + "useLocalSessionState=true";
            Pool connections =
                new Pool(unpooled("com.mysql.cj.jdbc.MysqlDataSource", "setUrl", knowing, user, password));
            pool = connections;
            return connections.dataSource();
        }
        if (url.startsWith("jdbc:h2:")) {
            pool = () -> { };
            return unpooled("org.h2.jdbcx.JdbcDataSource", "setURL", url, user, password);
        }
        MariaDbPoolDataSource source = new MariaDbPoolDataSource(url);
        source.setUser(user);
        source.setPassword(password);
        source.setMaxPoolSize(64);
        source.setMinPoolSize(1);
        pool = source;
        return source;
    }

    /** A driver that may not be there, and makes a new connection each time. */
    private static DataSource unpooled(String name, String setUrl, String url, String user, String password)
        throws SQLException {
        try {
            Object source = Class.forName(name).getConstructor().newInstance();
            String[][] settings = {{setUrl, url}, {"setUser", user}, {"setPassword", password}};
            for (String[] setting : settings) {
                source.getClass().getMethod(setting[0], String.class).invoke(source, setting[1]);
            }
            return (DataSource) source;
        } catch (ReflectiveOperationException e) {
            throw new SQLException(e);
        }
    }

    /** ActiveMQ does not know the drivers of MariaDB and MySQL by name; it needs the adapter set by hand. */
    private static JDBCAdapter adapter(JsonNode request) {
        if (request.get("jdbc_url").asText().matches("jdbc:(mariadb|mysql):.*")) {
            return new MySqlJDBCAdapter();
        }
        PostgresqlJDBCAdapter adapter = new PostgresqlJDBCAdapter();
        if (request.hasNonNull("acks_primary_key")) {
            adapter.setAcksPkName(request.get("acks_primary_key").asText());
        }
        return adapter;
    }

    private static PolicyMap policies(JsonNode request) throws ReflectiveOperationException {
        PolicyEntry ordinary = new PolicyEntry();
        ordinary.setExpireMessagesPeriod(0);
        List<PolicyEntry> special = new ArrayList<>();
        for (JsonNode name : request.path("prioritized")) {
            PolicyEntry entry = entryFor(name);
            entry.setPrioritizedMessages(true);
            special.add(entry);
        }
        for (JsonNode name : request.path("persist_redelivered")) {
            PolicyEntry entry = entryFor(name);
            entry.setPersistJMSRedelivered(true);
            special.add(entry);
        }
        for (JsonNode name : request.path("watched")) {
            PolicyEntry entry = entryFor(name);
            entry.setAdvisoryForDelivery(true);
            entry.setAdvisoryForConsumed(true);
            entry.setAdvisoryForDiscardingMessages(true);
            entry.setSendAdvisoryIfNoConsumers(true);
            entry.setIncludeBodyForAdvisory(true);
            setIfThere(entry, "AdvisoryForDispatched", true); // since 5.18
            ConstantPendingMessageLimitStrategy most = new ConstantPendingMessageLimitStrategy();
            most.setLimit(1);
            entry.setPendingMessageLimitStrategy(most);
            special.add(entry);
        }
        for (JsonNode name : request.path("slow")) {
            PolicyEntry entry = entryFor(name);
            entry.setAdvisoryForSlowConsumers(true);
            special.add(entry);
        }
        for (JsonNode name : request.path("full")) {
            PolicyEntry entry = entryFor(name);
            entry.setAdvisoryWhenFull(true);
            entry.setAdvisoryForFastProducers(true);
            entry.setMemoryLimit(1);
            entry.setPendingQueuePolicy(new VMPendingQueueMessageStoragePolicy());
            special.add(entry);
        }
        for (JsonNode name : request.path("last_image")) {
            PolicyEntry entry = entryFor(name);
            entry.setSubscriptionRecoveryPolicy(new LastImageSubscriptionRecoveryPolicy());
            special.add(entry);
        }
        PolicyMap policies = new PolicyMap();
        policies.setDefaultEntry(ordinary);
        policies.setPolicyEntries(special);
        return policies;
    }

    /** Set an option of the broker that not every version has, if it is given. */
    private void setNumber(String setter, JsonNode number) throws ReflectiveOperationException {
        if (number.isNumber()) {
            BrokerService.class.getMethod(setter, int.class).invoke(broker, number.asInt());
        }
    }

    /** Set an option that not every version has. */
    private static void setIfThere(PolicyEntry entry, String name, boolean value)
        throws ReflectiveOperationException {
        for (Method method : PolicyEntry.class.getMethods()) {
            if (method.getName().equals("set" + name)) {
                method.invoke(entry, value);
            }
        }
    }

    /** Virtual topics as without a configuration, and destinations that forward all to others. */
    private static DestinationInterceptor[] interceptors(JsonNode composite) throws InvalidSelectorException {
        List<VirtualDestination> virtual = new ArrayList<>();
        VirtualTopic topics = new VirtualTopic();
        topics.setName("VirtualTopic.>");
        virtual.add(topics);
        for (JsonNode one : composite) {
            ActiveMQDestination from = destination(one.get("name"));
            CompositeDestination forwarding = from.isTopic() ? new CompositeTopic() : new CompositeQueue();
            forwarding.setName(from.getPhysicalName());
            forwarding.setForwardOnly(one.path("forward_only").asBoolean(true));
            List<Object> targets = new ArrayList<>();
            for (JsonNode to : one.get("forward_to")) {
                if (!to.hasNonNull("selector")) {
                    targets.add(destination(to.get("name")));
                    continue;
                }
                FilteredDestination target = new FilteredDestination();
                target.setDestination(destination(to.get("name")));
                target.setSelector(to.get("selector").asText());
                targets.add(target);
            }
            forwarding.setForwardTo(targets);
            virtual.add(forwarding);
        }
        VirtualDestinationInterceptor interceptor = new VirtualDestinationInterceptor();
        interceptor.setVirtualDestinations(virtual.toArray(new VirtualDestination[0]));
        return new DestinationInterceptor[] {interceptor};
    }

    private static ActiveMQDestination destination(JsonNode name) {
        return ActiveMQDestination.createDestination(name.asText(), ActiveMQDestination.QUEUE_TYPE);
    }

    private static PolicyEntry entryFor(JsonNode name) {
        PolicyEntry entry = new PolicyEntry();
        entry.setDestination(destination(name));
        entry.setExpireMessagesPeriod(0);
        return entry;
    }
}
