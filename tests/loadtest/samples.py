"""Trace files of a few rows, made by hand in the columns of the real ones; not real data."""

HELIOS = """u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status
0,1,1,1,1,0,84,0,Pass
2,9,16,64,2,100,7200,0,Killed
1,3,0,8,1,50,3600,0,Failed
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-a,6000,12288,1,460,P100|T4,LS,Running,10,12902960,20
pod-b,12500,30517,0,0,,BE,Succeeded,5,105,5
pod-c,8000,16384,8,1000,,BE,Pending,30,90,
pod-d,1000,1024,2,1000,T4,LS,Failed,40,7240,40
"""
DUTY = """value,timestamp_anon,container_ip
50.0,1000.0,bbbbbbbbbb
25.0,1114.0,bbbbbbbbbb
0.0,1000.0,aaaaaaaaaa
100.0,1057.0,aaaaaaaaaa
"""
