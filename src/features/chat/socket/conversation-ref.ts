/** A conversation as the sockets know it: by its uuid inside, by its conv_ id on the wire. */
export type ConversationRef = { id: string; publicId: string };
