import { signal } from "@preact/signals";
import { useRoute } from "preact-iso";
import type { ProjectRole } from "../../src/protocol/enums.ts";
import { PERMISSIONS, type Permission } from "../../src/protocol/permissions.ts";
import { environment, projectPath } from "./address.ts";
import { api } from "./api.ts";

export type OpenProject = {
  id: string;
  name: string;
  description: string | null;
  status: "ACTIVE" | "ARCHIVED";
  allowedOrigins: string[];
  allowLocalhostOrigins: boolean;
  role?: ProjectRole;
};

/** The project whose pages are shown; the frame loads it before any of them. */
export const openProject = signal<OpenProject | null>(null);
/** Asks the frame to read it again, after something of it was changed. */
export const projectVersion = signal(0);

/** The server decides; this only spares people buttons that would be refused. An archived project is read-only. */
export function may(permission: Permission): boolean {
  const project = openProject.value;
  if (!project?.role || !PERMISSIONS[project.role].includes(permission)) return false;
  return project.status === "ACTIVE" || permission.endsWith(":read");
}

/** Where a page is: its project's routes, and the environment chosen in the head of the page. */
export function useProject() {
  const { projectId = "" } = useRoute().params;
  return {
    projectId,
    environment: environment.value,
    at: api.v1.projects({ projectId }),
    path: (page = "") => projectPath(projectId, page),
  };
}
