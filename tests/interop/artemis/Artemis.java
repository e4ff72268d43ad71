import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptor;
import org.apache.activemq.artemis.core.server.ActiveMQServer;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;

/** An embedded Artemis of a broker.xml, which stops when standard input ends; prints its version and ports. */
public final class Artemis {
    public static void main(String[] arguments) throws Exception {
        EmbeddedActiveMQ embedded = new EmbeddedActiveMQ();
        embedded.setConfigResourcePath(Path.of(arguments[0]).toUri().toString());
        String domain = System.getProperty("login.domain");
        embedded.setSecurityManager(domain == null ? null : new ActiveMQJAASSecurityManager(domain));
        embedded.start();
        ActiveMQServer server = embedded.getActiveMQServer();
        if (!server.isActive()) {
            System.out.println("waiting"); // a backup, for the end of its primary
            server.waitForActivation(Long.MAX_VALUE, TimeUnit.MILLISECONDS);
        }
        StringBuilder line = new StringBuilder("ready version=").append(server.getVersion().getFullVersion());
        for (String name : new String[] {"stomp", "openwire", "amqp"}) {
            NettyAcceptor acceptor = (NettyAcceptor) server.getRemotingService().getAcceptor(name);
            line.append(' ').append(name).append('=').append(acceptor.getActualPort());
        }
        System.out.println(line);
        while (System.in.read() >= 0) {
            // until the end
        }
        embedded.stop();
        System.exit(0);
    }
}
