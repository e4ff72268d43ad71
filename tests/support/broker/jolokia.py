"""What is asked of Jolokia, in order: by the recording of a real ActiveMQ, and of a broker of ours."""

from __future__ import annotations

from typing import Any

BROKER = "org.apache.activemq:type=Broker,brokerName=localhost"
ORDERS = f"{BROKER},destinationType=Queue,destinationName=ORDERS"
PRICES = f"{BROKER},destinationType=Topic,destinationName=PRICES"
GONE = (
    "org.apache.activemq:brokerName=localhost,clientId=billing,consumerId=Durable(billing_gone),"
    "destinationName=PRICES,destinationType=Topic,endpoint=Consumer,type=Broker"
)

Ask = str | dict[str, Any] | list[Any]
"""The path of a GET, or the body of a POST."""


def exec_(mbean: str, operation: str, *arguments: Any) -> dict[str, Any]:
    return {"type": "exec", "mbean": mbean, "operation": operation, "arguments": [*arguments]}


ASKS: dict[str, Ask] = {
    # KEDA's scaler, and Zabbix' and Nagios' checks
    "KEDA": f"read/{ORDERS}/QueueSize",
    "check_activemq: queues": f"read/{BROKER}",
    "check_activemq: a queue": "read/org.apache.activemq:brokerName=localhost,destinationName=ORDERS,"
    "destinationType=Queue,type=Broker",
    "check_activemq: health": f"read/{BROKER},service=Health",
    "check_activemq: no queue of that name": f"read/{BROKER},destinationType=Queue,destinationName=NONE",
    "check_activemq: a topic": f"read/{PRICES}",
    "check_activemq: a subscriber": f"read/{GONE}",
    "check_active_mq: queue": f"read/{ORDERS}",
    "metricbeat": {
        "type": "read",
        "mbean": "org.apache.activemq:brokerName=*,destinationName=*,destinationType=Queue,type=Broker",
        "attribute": ["QueueSize", "EnqueueCount", "DequeueCount", "ConsumerCount", "AverageEnqueueTime"],
    },
    # Hawtio
    "Hawtio: version": "version",
    "Hawtio: version by POST": {"type": "version"},
    "Hawtio: brokers": {"type": "search", "mbean": "org.apache.activemq:type=Broker,brokerName=*"},
    "Hawtio: queues": {"type": "search", "mbean": f"{BROKER},destinationType=Queue,destinationName=*"},
    "Hawtio: queues in one go": [{"type": "read", "mbean": ORDERS}, {"type": "read", "mbean": f"{ORDERS}X"}],
    "Hawtio: browse": exec_(ORDERS, "browse()"),
    "Hawtio: send": exec_(ORDERS, "sendTextMessage(java.lang.String)", "hello"),
    "Hawtio: send with properties": exec_(
        ORDERS, "sendTextMessageWithProperties(java.lang.String)", "body=hi,JMSPriority=7,x=1"
    ),
    "Hawtio: send with headers": exec_(
        ORDERS, "sendTextMessage(java.util.Map,java.lang.String)", {"a": "b"}, "with headers"
    ),
    "Hawtio: create a queue": exec_(BROKER, "addQueue", "NEW"),
    "Hawtio: create it again": exec_(BROKER, "addQueue(java.lang.String)", "NEW"),
    "Hawtio: move": exec_(
        ORDERS, "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "table = 2", "NEW"
    ),
    "Hawtio: copy": exec_(
        ORDERS, "copyMatchingMessagesTo(java.lang.String,java.lang.String)", "table = 1", "NEW"
    ),
    "Hawtio: the other queue": f"read/{BROKER},destinationType=Queue,destinationName=NEW/QueueSize",
    "Hawtio: remove one that is gone": exec_(ORDERS, "removeMessage(java.lang.String)", "ID:none"),
    "Hawtio: remove": exec_(ORDERS, "removeMatchingMessages(java.lang.String)", "x = '1'"),
    "Hawtio: pause": exec_(ORDERS, "pause"),
    "Hawtio: is it paused": f"read/{ORDERS}/Paused",
    "Hawtio: resume": exec_(ORDERS, "resume()"),
    "Hawtio: cursor": exec_(ORDERS, "cursorSize()"),
    "Hawtio: reset": exec_(ORDERS, "resetStatistics()"),
    "Hawtio: purge": exec_(ORDERS, "purge()"),
    "Hawtio: it is empty": f"read/{ORDERS}/QueueSize,EnqueueCount",
    "Hawtio: delete a queue": exec_(BROKER, "removeQueue(java.lang.String)", "NEW"),
    "Hawtio: destroy a subscription": exec_(
        BROKER, "destroyDurableSubscriber(java.lang.String,java.lang.String)", "billing", "gone"
    ),
    # What is wrong
    "no attribute of that name": f"read/{ORDERS}/Nothing",
    "overloaded": exec_(ORDERS, "browse"),
    "no operation of that name": exec_(ORDERS, "explode()"),
    "too few arguments": exec_(ORDERS, "removeMessage"),
    "no MBean of that name": exec_(f"{ORDERS}X", "purge()"),
    "not a name": "read/nothing",
    "no type": {"mbean": ORDERS},
    "no such type": {"type": "nothing"},
}
"""Each by its client and purpose."""
