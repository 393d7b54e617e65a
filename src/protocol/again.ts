/**
 * Offered as a subprotocol by a client that takes a second greeting on an open socket as word that another server answers
 * from now on, and that it has to say again what it had said. An edge keeps the sockets of such clients across a takeover.
 */
export const AGAIN_PROTOCOL = "stoa.again";
