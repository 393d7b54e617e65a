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

/** The current project; the shell loads it before its pages. */
export const openProject = signal<OpenProject | null>(null);
/** Increased to make the shell reload the project after a change. */
export const projectVersion = signal(0);

/** Whether to show a control. The server decides in the end. An archived project is read-only. */
export function may(permission: Permission): boolean {
  const project = openProject.value;
  if (!project?.role || !PERMISSIONS[project.role].includes(permission)) return false;
  return project.status === "ACTIVE" || permission.endsWith(":read");
}

/** The current project's routes and the selected environment. */
export function useProject() {
  const { projectId = "" } = useRoute().params;
  return {
    projectId,
    environment: environment.value,
    at: api.v1.projects({ projectId }),
    path: (page = "") => projectPath(projectId, page),
  };
}
