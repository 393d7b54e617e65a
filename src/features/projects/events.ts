declare module "../../kernel/bus.ts" {
  interface BusEvents {
    /** A project was archived, or its origins, name or keys changed: caches drop their entries for it. */
    projectChanged: { projectId: string };
    apiKeyRevoked: { publicId: string; projectId: string };
  }
}

export {};
