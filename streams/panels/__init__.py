"""The panels of the dashboards: one definition for the page, the API and Grafana."""
