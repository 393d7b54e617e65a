/** A conversation as the live side knows it: by its uuid inside, by its conv_ id on the wire. */
export type Place = { id: string; publicId: string };
