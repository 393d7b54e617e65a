/**
 * The subprotocol of clients that accept a second greeting on an open socket: the greeting means that another server
 * serves the socket from now on, and that the client must repeat its requests. A cluster proxy keeps the sockets of
 * such clients open when the leader changes.
 */
export const REPEAT_PROTOCOL = "stoa.again";
