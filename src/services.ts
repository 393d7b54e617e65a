import { apiKeyService } from "./projects/api-key.service.ts";
import { projectService } from "./projects/project.service.ts";
import type { Runtime } from "./runtime.ts";

/** Every feature's rules, wired together once; what a feature needs of another is handed to it here. */
export function createServices(runtime: Runtime) {
  const projects = projectService(runtime);
  const apiKeys = apiKeyService(runtime);
  return { projects, apiKeys };
}

export type Services = ReturnType<typeof createServices>;
